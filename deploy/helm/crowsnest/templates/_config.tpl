{{/* Merges the second map into the first. Lists and other values are replaced. */}}
{{- define "crowsnest.merge" -}}
{{- $into := index . 0 -}}
{{- range $key, $value := index . 1 -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $into $key)) -}}
{{- include "crowsnest.merge" (list (get $into $key) $value) -}}
{{- else -}}
{{- $_ := set $into $key $value -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Refuses secrets in the configuration, which is a ConfigMap. Takes the path and the
     value. */}}
{{- define "crowsnest.noSecrets" -}}
{{- $path := index . 0 -}}
{{- $value := index . 1 -}}
{{- if kindIs "map" $value -}}
{{- range $key, $inner := $value -}}
{{- if and (has $key (list "password" "credentials" "client_secret" "bearer_token" "key")) (kindIs "string" $inner) -}}
{{- fail (printf "%s.%s is a secret, and the configuration is a ConfigMap: put it into a Secret, list that below secrets, and set %s_file: /etc/crowsnest-secrets/NAME/KEY" $path $key $key) -}}
{{- end -}}
{{- include "crowsnest.noSecrets" (list (printf "%s.%s" $path $key) $inner) -}}
{{- end -}}
{{- else if kindIs "slice" $value -}}
{{- range $i, $inner := $value -}}
{{- include "crowsnest.noSecrets" (list (printf "%s[%d]" $path $i) $inner) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "crowsnest.rules" -}}
rules:
  paths: {{ include "crowsnest.rulePaths" . | fromJsonArray | toJson }}
  {{- if .Values.rules.overrides }}
  overrides: [/etc/crowsnest-overrides]
  {{- end }}
  {{- with .Values.rules.infrastructureNamespaces }}
  infrastructure_namespaces: {{ toJson . }}
  {{- end }}
{{- end }}

{{- define "crowsnest.agentConfig" -}}
{{- $host := printf "%s-aggregator" (include "crowsnest.name" .) -}}
{{ include "crowsnest.rules" . }}
sources:
  kubelet: {}
  {{- if .Values.agent.journal.enabled }}
  journal: {dirs: [/host/var/log/journal, /host/run/log/journal]}
  {{- end }}
sinks:
  upstream:
    {{- if include "crowsnest.pair" . }}
    # The addresses of both; the one that leads accepts.
    url: {{ ternary "https" "http" (not (empty .Values.agentTLS.secret)) }}://{{ $host }}-peers:9798
    {{- else if .Values.agentTLS.secret }}
    url: https://{{ $host }}.{{ .Release.Namespace }}.svc:9798
    {{- else }}
    url: http://{{ $host }}:9798
    {{- end }}
    http_config:
      authorization: {credentials_file: /var/run/secrets/crowsnest/token}
      {{- if .Values.agentTLS.secret }}
      tls_config:
        ca_file: /etc/crowsnest-tls/ca.crt
        {{- if include "crowsnest.pair" . }}
        server_name: {{ $host }}.{{ .Release.Namespace }}.svc
        {{- end }}
      {{- end }}
storage:
  path: /var/lib/crowsnest
{{- end }}

{{- define "crowsnest.aggregatorConfig" -}}
global:
  external_labels: {cluster: {{ required "cluster is empty: set it to the name of this cluster, which every alert carries" .Values.cluster | quote }}}
  {{- with .Values.externalURL }}
  external_url: {{ quote . }}
  {{- end }}
{{ include "crowsnest.rules" . }}
  {{- with .Values.rules.configMapSelector }}
  config_maps: {selector: {{ quote . }}}
  {{- end }}
sources:
  {{- if eq .Values.mode "agents" }}
  agents:
    token_review: {service_account: {{ .Release.Namespace }}/{{ include "crowsnest.name" . }}-agent}
    nodes: {}
    {{- if .Values.agentTLS.secret }}
    web_config_file: web.yml
    {{- end }}
  {{- else if eq .Values.mode "kubernetes" }}
  kubernetes:
    include: {{ toJson .Values.kubernetes.include }}
    {{- with .Values.kubernetes.namespaces }}
    namespaces: {{ toJson . }}
    {{- end }}
  {{- else if eq .Values.mode "loki" }}
  loki:
    url: {{ .Values.loki.url }}
    selector: {{ quote .Values.loki.selector }}
  {{- else if eq .Values.mode "victorialogs" }}
  victorialogs:
    url: {{ .Values.victorialogs.url }}
    selector: {{ quote .Values.victorialogs.selector }}
    {{- with .Values.victorialogs.labels }}
    labels: {{ toJson . }}
    {{- end }}
    {{- with .Values.victorialogs.fields }}
    fields: {{ toJson . }}
    {{- end }}
  {{- end }}
  {{- if include "crowsnest.otlp" . }}
  otlp:
    listen_address: :4318
    {{- if .Values.otlp.tokenSecret }}
    bearer_token_file: /etc/crowsnest-otlp-token/token
    {{- end }}
    {{- if .Values.otlp.tlsSecret }}
    web_config_file: web-otlp.yml
    {{- end }}
  {{- end }}
  {{- if .Values.objects.enabled }}
  objects:
    kinds: {{ toJson .Values.objects.kinds }}
    {{- if .Values.objects.machines }}
    machines: {}
    {{- end }}
  {{- end }}
  {{- if .Values.events }}
  events: {}
  {{- end }}
sinks:
  {{- if or .Values.alertmanager.urls .Values.alertmanager.headlessService }}
  alertmanager:
    {{- with .Values.alertmanager.urls }}
    urls: {{ toJson . }}
    {{- end }}
    {{- with .Values.alertmanager.headlessService }}
    dns_sd_configs:
    - {names: [{{ . }}], type: A, port: {{ $.Values.alertmanager.port }}}
    {{- end }}
  {{- else if not .Values.aggregator.config.sinks }}
  {{- fail "alertmanager.urls and alertmanager.headlessService are empty: name the headless Service of Alertmanager, list the address of every Alertmanager, or set aggregator.config.sinks" }}
  {{- end }}
  {{- if and (eq .Values.mode "loki") .Values.loki.events }}
  loki:
    url: {{ .Values.loki.url }}
  {{- end }}
{{- if eq .Values.mode "agents" }}
limits: {fingerprints: 131072}
{{- end }}
{{- if include "crowsnest.pair" . }}
high_availability:
  lease: {name: {{ include "crowsnest.name" . }}-leader}
  token_review:
    service_account: {{ .Release.Namespace }}/{{ include "crowsnest.name" . }}-aggregator
    token_file: /var/run/secrets/crowsnest-standby/token
{{- end }}
storage:
  path: /var/lib/crowsnest
{{- end }}

{{/* A configuration with the values of the user. Takes the root, and agent or
     aggregator. */}}
{{- define "crowsnest.config" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $own := (index $root.Values $part).config -}}
{{- include "crowsnest.noSecrets" (list (printf "%s.config" $part) $own) -}}
{{- $config := include (printf "crowsnest.%sConfig" $part) $root | fromYaml -}}
{{- include "crowsnest.merge" (list $config $own) -}}
{{- toYaml $config -}}
{{- end }}
