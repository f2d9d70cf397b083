{{- define "crowsnest.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* The labels by which selectors find the objects of this release. */}}
{{- define "crowsnest.selector" -}}
app.kubernetes.io/name: crowsnest
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "crowsnest.labels" -}}
{{ include "crowsnest.selector" . }}
app.kubernetes.io/part-of: crowsnest
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The labels of pods: those of objects change with the version, which would
     restart agents for a change of the chart alone. */}}
{{- define "crowsnest.podLabels" -}}
{{ include "crowsnest.selector" . }}
app.kubernetes.io/part-of: crowsnest
{{- end }}

{{- define "crowsnest.agents" -}}
{{- if eq .Values.mode "agents" }}true{{ end -}}
{{- end }}

{{/* Whether there is a standby. */}}
{{- define "crowsnest.pair" -}}
{{- if gt (int .Values.aggregator.replicas) 1 }}true{{ end -}}
{{- end }}

{{/* Whether the aggregator receives logs from OpenTelemetry collectors. */}}
{{- define "crowsnest.otlp" -}}
{{- if or (eq .Values.mode "otlp") .Values.otlp.enabled }}true{{ end -}}
{{- end }}

{{/* Whether the aggregator uses the Kubernetes API. */}}
{{- define "crowsnest.api" -}}
{{- if or (include "crowsnest.pair" .) (has .Values.mode (list "agents" "kubernetes")) .Values.objects.enabled .Values.events .Values.rules.configMapSelector }}true{{ end -}}
{{- end }}

{{- define "crowsnest.dnsPorts" -}}
{{- range .Values.networkPolicy.dnsPorts }}
- {port: {{ . }}, protocol: UDP}
- {port: {{ . }}, protocol: TCP}
{{- end }}
{{- end }}

{{- define "crowsnest.image" -}}
image: {{ if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end }}

{{- define "crowsnest.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "crowsnest.priorityClass" -}}
{{- if .Values.priorityClass.name }}{{ .Values.priorityClass.name }}{{ else if .Values.priorityClass.create }}{{ include "crowsnest.name" . }}{{ end -}}
{{- end }}

{{- define "crowsnest.claim" -}}
{{- default (printf "%s-aggregator" (include "crowsnest.name" .)) .Values.aggregator.persistence.existingClaim -}}
{{- end }}

{{/* 90 % of a memory limit in Mi or Gi, for GOMEMLIMIT. */}}
{{- define "crowsnest.memory" -}}
{{- $mi := trimSuffix "Mi" (trimSuffix "Gi" .) | int64 -}}
{{- if hasSuffix "Gi" . }}{{ $mi = mul $mi 1024 }}{{ end -}}
{{- div (mul $mi 90) 100 }}MiB
{{- end }}

{{/* Neither startup nor liveness depends on a peer. Ready means that this pod can
     do its own work; alerts and /sources show problems of peers. */}}
{{- define "crowsnest.probes" -}}
startupProbe:
  httpGet: {path: /-/healthy, port: probes}
  periodSeconds: 2
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /-/ready, port: probes}
  periodSeconds: 5
livenessProbe:
  httpGet: {path: /-/healthy, port: probes}
  periodSeconds: 20
  failureThreshold: 3
{{- end }}

{{- define "crowsnest.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Secrets of .Values.agent or .Values.aggregator. */}}
{{- define "crowsnest.secretMounts" -}}
{{- range . }}
- {name: {{ printf "secret-%s" . | trunc 63 | trimSuffix "-" }}, mountPath: /etc/crowsnest-secrets/{{ . }}, readOnly: true}
{{- end }}
{{- end }}

{{- define "crowsnest.secretVolumes" -}}
{{- range . }}
- {name: {{ printf "secret-%s" . | trunc 63 | trimSuffix "-" }}, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- end }}
