{{/* Whether the chart makes a ConfigMap of packs. */}}
{{- define "crowsnest.ownPacks" -}}
{{- if or .Values.rules.installationTest .Values.rules.packs }}true{{ end -}}
{{- end }}

{{/* The folders of packs, as JSON. */}}
{{- define "crowsnest.rulePaths" -}}
{{- $paths := list -}}
{{- if or (include "crowsnest.ownPacks" .) .Values.rules.configMaps }}{{ $paths = append $paths "/etc/crowsnest-rules" }}{{ end -}}
{{- if .Values.rules.gitSync.enabled }}{{ $paths = append $paths (printf "/git/current/%s" .Values.rules.gitSync.path | trimSuffix "/") }}{{ end -}}
{{- if .Values.rules.image.reference }}{{ $paths = append $paths (printf "/etc/crowsnest-rules-image/%s" .Values.rules.image.path | trimSuffix "/") }}{{ end -}}
{{- toJson $paths -}}
{{- end }}

{{- define "crowsnest.ruleMounts" -}}
{{- if or (include "crowsnest.ownPacks" .) .Values.rules.configMaps }}
- {name: rules, mountPath: /etc/crowsnest-rules, readOnly: true}
{{- end }}
{{- if .Values.rules.overrides }}
- {name: overrides, mountPath: /etc/crowsnest-overrides, readOnly: true}
{{- end }}
{{- if .Values.rules.image.reference }}
- {name: rules-image, mountPath: /etc/crowsnest-rules-image, readOnly: true}
{{- end }}
{{- end }}

{{- define "crowsnest.ruleVolumes" -}}
{{- if .Values.rules.configMaps }}
- name: rules
  projected:
    sources:
    {{- if include "crowsnest.ownPacks" . }}
    - configMap: {name: {{ include "crowsnest.name" . }}-rules}
    {{- end }}
    {{- range .Values.rules.configMaps }}
    - configMap: {name: {{ . }}}
    {{- end }}
{{- else if include "crowsnest.ownPacks" . }}
- {name: rules, configMap: {name: {{ include "crowsnest.name" . }}-rules}}
{{- end }}
{{- if .Values.rules.overrides }}
- {name: overrides, configMap: {name: {{ include "crowsnest.name" . }}-overrides}}
{{- end }}
{{- with .Values.rules.image }}
{{- if .reference }}
- name: rules-image
  image:
    reference: {{ .reference }}
    {{- with .pullPolicy }}
    pullPolicy: {{ . }}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* A sidecar that starts, and fetches the rules, before crowsnest starts. */}}
{{- define "crowsnest.gitSync" -}}
{{- with .Values.rules.gitSync }}
{{- if .enabled }}
initContainers:
- name: git-sync
  image: {{ .image }}
  restartPolicy: Always
  args:
  - --repo={{ required "rules.gitSync.repo is empty: set the address of the repository" .repo }}
  - --ref={{ .ref }}
  - --root=/git
  - --link=current
  - --period={{ .period }}
  - --max-failures=-1
  {{- range .args }}
  - {{ quote . }}
  {{- end }}
  startupProbe:
    exec: {command: [/bin/sh, -c, test -e /git/current/{{ .path }}]}
    periodSeconds: 2
    failureThreshold: 60
  resources: {{ toJson .resources }}
  {{- include "crowsnest.confined" . | nindent 2 }}
  volumeMounts:
  - {name: git, mountPath: /git}
  - {name: git-home, mountPath: /tmp}
  {{- if .secret }}
  - {name: git-secret, mountPath: /etc/git-secret, readOnly: true}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "crowsnest.gitMounts" -}}
{{- if .Values.rules.gitSync.enabled }}
- {name: git, mountPath: /git, readOnly: true}
{{- end }}
{{- end }}

{{- define "crowsnest.gitVolumes" -}}
{{- with .Values.rules.gitSync }}
{{- if .enabled }}
- {name: git, emptyDir: {sizeLimit: 256Mi}}
- {name: git-home, emptyDir: {sizeLimit: 16Mi}}
{{- if .secret }}
- {name: git-secret, secret: {secretName: {{ .secret }}, defaultMode: 0440}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
