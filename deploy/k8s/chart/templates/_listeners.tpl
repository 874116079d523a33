{{/* The listeners for clients: those of the values, or one without TLS, and with externalAccess another. A YAML list. */}}
{{- define "barnabas.listeners" -}}
{{- $listeners := .Values.listeners -}}
{{- if not $listeners -}}
{{- $listeners = list (dict "name" "PLAINTEXT" "protocol" "PLAINTEXT" "port" 9092) -}}
{{- if .Values.externalAccess.enabled -}}
{{- $listeners = append $listeners (dict "name" "EXTERNAL" "protocol" "PLAINTEXT" "port" 19092 "external" .Values.externalAccess) -}}
{{- end -}}
{{- end -}}
{{- toYaml $listeners -}}
{{- end -}}

{{/* The first port of an external address. Call with a listener that has one. */}}
{{- define "barnabas.externalPortOf" -}}
{{- $external := .external -}}
{{- if eq $external.type "NodePort" -}}{{ int $external.nodePort }}{{- else -}}{{ int (default .port $external.port) }}{{- end -}}
{{- end -}}

{{/* How many ports a listener has: one, and with a port per broker one for each. */}}
{{- define "barnabas.portsOfListener" -}}
{{- if eq .Values.cluster.addressPolicy "shared" -}}1{{- else -}}{{ add1 (int .Values.logstore.replicas) }}{{- end -}}
{{- end -}}

{{/* Where a listener's certificate comes from; empty without TLS. Call with a listener. */}}
{{- define "barnabas.certificateMode" -}}
{{- if has .protocol (list "SSL" "SASL_SSL") -}}{{ default "generated" (default dict .certificate).mode }}{{- end -}}
{{- end -}}

{{/* The Secret with a listener's key store. Call with (list . listener). */}}
{{- define "barnabas.listenerSecret" -}}
{{- $listener := index . 1 -}}
{{- if eq (include "barnabas.certificateMode" $listener) "secret" -}}{{ $listener.certificate.secretName }}
{{- else -}}{{ include "barnabas.fullname" (index . 0) }}-listener-{{ lower $listener.name }}-tls
{{- end -}}
{{- end -}}

{{/* The key of that Secret: the private key, then the certificate and its chain. Call with a listener. */}}
{{- define "barnabas.keyStoreKey" -}}
{{- $mode := include "barnabas.certificateMode" . -}}
{{- if eq $mode "certManager" -}}tls-combined.pem{{- else -}}{{ default "keystore.pem" (default dict .certificate).secretKey }}{{- end -}}
{{- end -}}

{{/* The names that clients use for the gateways at a listener. Call with (list . listener); a YAML list. */}}
{{- define "barnabas.namesOfListener" -}}
{{- $root := index . 0 -}}
{{- $listener := index . 1 -}}
{{- $names := list -}}
{{- if $listener.external -}}
{{- $names = append $names $listener.external.host -}}
{{- else -}}
{{- $full := include "barnabas.fullname" $root -}}
{{- $hosts := list (printf "%s-gateway" $full) -}}
{{- if eq $root.Values.cluster.addressPolicy "colocated" -}}
{{- range $id := until (int $root.Values.logstore.replicas) -}}{{- $hosts = append $hosts (printf "%s-broker-%d" $full $id) -}}{{- end -}}
{{- end -}}
{{- range $host := $hosts -}}
{{- $qualified := printf "%s.%s" $host $root.Release.Namespace -}}
{{- $names = concat $names (list $host $qualified (printf "%s.svc" $qualified) (printf "%s.svc.cluster.local" $qualified)) -}}
{{- end -}}
{{- end -}}
{{- toYaml (concat $names (default list (default dict $listener.certificate).names) | uniq) -}}
{{- end -}}

{{/* What a Certificate of cert-manager names: addresses apart from names, since clients compare each with its kind. Call with a list. */}}
{{- define "barnabas.subjectNames" -}}
{{- $names := list -}}
{{- $addresses := list -}}
{{- range . -}}
{{- if regexMatch "^[0-9]+([.][0-9]+){3}$" . -}}{{- $addresses = append $addresses . -}}{{- else -}}{{- $names = append $names . -}}{{- end -}}
{{- end -}}
{{- with $names }}
dnsNames: {{ toJson . }}
{{- end }}
{{- with $addresses }}
ipAddresses: {{ toJson . }}
{{- end }}
{{- end -}}

{{/* The gateways' keys of all listeners. */}}
{{- define "barnabas.listenerKeys" -}}
{{- $root := . -}}
{{- $bound := list -}}
{{- $advertised := list -}}
{{- $protocols := list -}}
{{- $host := ternary "broker-{id}" "gateway" (eq .Values.cluster.addressPolicy "colocated") -}}
{{- range $listener := include "barnabas.listeners" . | fromYamlArray }}
{{- $name := $listener.name -}}
{{- $prefix := printf "listener.name.%s" (lower $name) -}}
{{- $bound = append $bound (printf "%s://0.0.0.0:%d" $name (int $listener.port)) -}}
{{- if $listener.external -}}
{{- $advertised = append $advertised (printf "%s://%s:%s" $name $listener.external.host (include "barnabas.externalPortOf" $listener)) -}}
{{- else -}}
{{- $advertised = append $advertised (printf "%s://%s-%s.%s.svc:%d" $name (include "barnabas.fullname" $root) $host $root.Release.Namespace (int $listener.port)) -}}
{{- end -}}
{{- if ne $name $listener.protocol -}}{{- $protocols = append $protocols (printf "%s:%s" $name $listener.protocol) -}}{{- end -}}
{{- with $listener.mechanisms }}
{{ $prefix }}.sasl.enabled.mechanisms: {{ join "," . | quote }}
{{- end }}
{{- if include "barnabas.certificateMode" $listener }}
{{ $prefix }}.ssl.keystore.location: /etc/barnabas-listeners/{{ lower $name }}/{{ include "barnabas.keyStoreKey" $listener }}
{{- with $listener.clientAuth }}
{{ $prefix }}.ssl.client.auth: {{ . }}
{{- end }}
{{- with $listener.clientAuthority }}
{{ $prefix }}.ssl.truststore.location: /etc/barnabas-listeners/{{ lower $name }}-clients/{{ default "ca.crt" .secretKey }}
{{- end }}
{{- end }}
{{- range $key, $value := $listener.config }}
{{ $prefix }}.{{ $key }}: {{ include "barnabas.text" $value | quote }}
{{- end }}
{{- end }}
{{- if $protocols }}
listener.security.protocol.map: {{ join "," $protocols | quote }}
{{- end }}
listeners: {{ join "," $bound | quote }}
advertised.listeners: {{ join "," $advertised | quote }}
{{- end -}}

{{/* Volumes of a gateway's pod for its listeners. */}}
{{- define "barnabas.listenerVolumes" -}}
{{- $root := . -}}
{{- range $listener := include "barnabas.listeners" . | fromYamlArray }}
{{- if include "barnabas.certificateMode" $listener }}
- name: listener-{{ lower $listener.name }}
  secret:
    secretName: {{ include "barnabas.listenerSecret" (list $root $listener) | quote }}
    defaultMode: 0440
{{- with $listener.clientAuthority }}
- name: listener-{{ lower $listener.name }}-clients
  secret:
    secretName: {{ .secretName | quote }}
    defaultMode: 0440
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "barnabas.listenerMounts" -}}
{{- range $listener := include "barnabas.listeners" . | fromYamlArray }}
{{- if include "barnabas.certificateMode" $listener }}
- name: listener-{{ lower $listener.name }}
  mountPath: /etc/barnabas-listeners/{{ lower $listener.name }}
  readOnly: true
{{- if $listener.clientAuthority }}
- name: listener-{{ lower $listener.name }}-clients
  mountPath: /etc/barnabas-listeners/{{ lower $listener.name }}-clients
  readOnly: true
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
