{{/* Where the certificate of the metrics' port comes from; empty without TLS. */}}
{{- define "barnabas.metricsTls" -}}
{{- if and .Values.metrics.enabled (ne .Values.metrics.tls.mode "none") -}}{{ .Values.metrics.tls.mode }}{{- end -}}
{{- end -}}

{{- define "barnabas.metricsSecret" -}}
{{- if eq .Values.metrics.tls.mode "secret" -}}{{ .Values.metrics.tls.secretName }}
{{- else -}}{{ include "barnabas.fullname" . }}-metrics-tls
{{- end -}}
{{- end -}}

{{/* The name that scrapers find in the certificate: they connect to pods by addresses. */}}
{{- define "barnabas.metricsServerName" -}}
{{- default (printf "%s-metrics" (include "barnabas.fullname" .)) .Values.metrics.tls.serverName -}}
{{- end -}}

{{/* Whether the job generates a certificate for scrapers, of the authority of the metrics' own. */}}
{{- define "barnabas.hasScraperCertificate" -}}
{{- $tls := .Values.metrics.tls -}}
{{- if and (eq (include "barnabas.metricsTls" .) "generated") (eq $tls.clientAuth "required") (not $tls.clientAuthority.secretName) -}}yes{{- end -}}
{{- end -}}

{{/* The Secret with the certificate that the ServiceMonitor's scraper shows; empty: none. */}}
{{- define "barnabas.scraperSecret" -}}
{{- if eq .Values.metrics.tls.clientAuth "required" -}}
{{- if include "barnabas.hasScraperCertificate" . -}}{{ include "barnabas.fullname" . }}-scraper-tls
{{- else -}}{{ .Values.metrics.tls.scraperSecret }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "barnabas.metricsKeys" -}}
{{- $metrics := .Values.metrics -}}
metrics.listeners: "0.0.0.0:9404"
{{- if include "barnabas.metricsTls" . }}
metrics.tls.certificate: /etc/barnabas-metrics/tls.crt
metrics.tls.key: /etc/barnabas-metrics/tls.key
{{- if eq $metrics.tls.clientAuth "required" }}
{{- if $metrics.tls.clientAuthority.secretName }}
metrics.tls.authority: /etc/barnabas-scrapers/{{ $metrics.tls.clientAuthority.secretKey }}
{{- else }}
metrics.tls.authority: /etc/barnabas-metrics/ca.crt
{{- end }}
{{- end }}
{{- if $metrics.token.secretName }}
metrics.token.file: /etc/barnabas-metrics-token/{{ $metrics.token.secretKey }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The Secrets that the metrics need in each pod of a service, by the names of their volumes. A YAML object. */}}
{{- define "barnabas.metricsSecrets" -}}
{{- if include "barnabas.metricsTls" . }}
metrics: {{ include "barnabas.metricsSecret" . | quote }}
{{- if eq .Values.metrics.tls.clientAuth "required" }}
{{- with .Values.metrics.tls.clientAuthority.secretName }}
scrapers: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .Values.metrics.token.secretName }}
metrics-token: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "barnabas.metricsVolumes" -}}
{{- range $volume, $secret := include "barnabas.metricsSecrets" . | fromYaml }}
- name: {{ $volume }}
  secret:
    secretName: {{ $secret | quote }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- define "barnabas.metricsMounts" -}}
{{- range $volume, $secret := include "barnabas.metricsSecrets" . | fromYaml }}
- name: {{ $volume }}
  mountPath: /etc/barnabas-{{ $volume }}
  readOnly: true
{{- end }}
{{- end -}}

{{/* The certificates of the metrics that the job generates. A YAML list. */}}
{{- define "barnabas.metricsCertificates" -}}
{{- $certificates := list -}}
{{- if eq (include "barnabas.metricsTls" .) "generated" -}}
{{- $name := include "barnabas.fullname" . -}}
{{- $authority := printf "%s-metrics-ca" $name -}}
{{- $certificates = append $certificates (dict "secret" (include "barnabas.metricsSecret" .) "authority" $authority "commonName" "metrics" "names" (list (include "barnabas.metricsServerName" .))) -}}
{{- if include "barnabas.hasScraperCertificate" . -}}
{{- $certificates = append $certificates (dict "secret" (include "barnabas.scraperSecret" .) "authority" $authority "commonName" "scraper" "names" list) -}}
{{- end -}}
{{- end -}}
{{- toYaml $certificates -}}
{{- end -}}

{{/* How Prometheus scrapes the pods of services: part of an endpoint of a ServiceMonitor. */}}
{{- define "barnabas.scrapedBy" -}}
{{- if include "barnabas.metricsTls" . -}}
scheme: https
tlsConfig:
  ca: {secret: {name: {{ include "barnabas.metricsSecret" . | quote }}, key: ca.crt}}
  serverName: {{ include "barnabas.metricsServerName" . | quote }}
  {{- with include "barnabas.scraperSecret" . }}
  cert: {secret: {name: {{ . | quote }}, key: tls.crt}}
  keySecret: {name: {{ . | quote }}, key: tls.key}
  {{- end }}
{{- with .Values.metrics.token }}
{{- if .secretName }}
authorization:
  credentials: {name: {{ .secretName | quote }}, key: {{ .secretKey | quote }}}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "barnabas.validateMetrics" -}}
{{- $metrics := .Values.metrics -}}
{{- $tls := $metrics.tls -}}
{{- if eq $tls.mode "none" -}}
{{- if $metrics.token.secretName -}}
{{- fail "metrics.token.secretName: a token is a secret, so it needs TLS: set metrics.tls.mode" -}}
{{- end -}}
{{- if eq $tls.clientAuth "required" -}}
{{- fail "metrics.tls.clientAuth=required: without TLS no scraper shows a certificate: set metrics.tls.mode" -}}
{{- end -}}
{{- end -}}
{{- if and (eq $tls.mode "secret") (not $tls.secretName) -}}
{{- fail "metrics.tls.secretName is empty: name the Secret with tls.crt, tls.key and ca.crt" -}}
{{- end -}}
{{- if and (eq $tls.mode "certManager") (not $tls.issuerRef.name) -}}
{{- fail "metrics.tls.issuerRef.name is empty: name the issuer of the certificate" -}}
{{- end -}}
{{- if and (eq $tls.clientAuth "required") (not $tls.clientAuthority.secretName) (ne $tls.mode "generated") -}}
{{- fail "metrics.tls.clientAuthority.secretName is needed for clientAuth=required: the Secret with the authority of scrapers" -}}
{{- end -}}
{{- if and $metrics.serviceMonitor.enabled $metrics.enabled (eq $tls.clientAuth "required") (not (include "barnabas.scraperSecret" .)) -}}
{{- fail "metrics.tls.scraperSecret is empty: name the Secret with tls.crt and tls.key that the ServiceMonitor's scraper shows" -}}
{{- end -}}
{{- end -}}
