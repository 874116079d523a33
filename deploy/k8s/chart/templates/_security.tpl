{{/*
How the running release is secured inside: empty if there is none, else a mode of internalTls. `helm template` sees none.
*/}}
{{- define "barnabas.liveInternalTls" -}}
{{- $live := lookup "v1" "ConfigMap" .Release.Namespace (printf "%s-controller" (include "barnabas.fullname" .)) -}}
{{- if $live -}}
{{- if contains "inter.service.tls.authority" (index $live.data "barnabas.properties") -}}
{{- default "generated" (index (default dict $live.metadata.annotations) "barnabas/internal-tls") -}}
{{- else -}}none{{- end -}}
{{- end -}}
{{- end -}}

{{/* The mode of internalTls, without "auto": services with and without TLS don't understand each other. */}}
{{- define "barnabas.internalTlsMode" -}}
{{- $mode := .Values.internalTls.mode -}}
{{- if ne $mode "auto" -}}{{ $mode }}
{{- else -}}{{ default "generated" (include "barnabas.liveInternalTls" .) }}
{{- end -}}
{{- end -}}

{{/* "generated" or "none". */}}
{{- define "barnabas.etcdTls" -}}
{{- $bundled := .Values.etcd.bundled -}}
{{- if not $bundled.enabled -}}none
{{- else if ne $bundled.tls "auto" -}}{{ $bundled.tls }}
{{- else -}}{{ default (ternary "generated" "none" (eq (include "barnabas.internalTlsMode" .) "generated")) (include "barnabas.liveEtcdTls" .) }}
{{- end -}}
{{- end -}}

{{/* How the bundled etcd runs now: empty if it doesn't. */}}
{{- define "barnabas.liveEtcdTls" -}}
{{- $live := lookup "apps/v1" "StatefulSet" .Release.Namespace (printf "%s-etcd" (include "barnabas.fullname" .)) -}}
{{- if $live -}}{{ ternary "generated" "none" (contains "--cert-file=" (toJson $live.spec.template.spec)) }}{{- end -}}
{{- end -}}

{{/* "certificate", "token" or "none". */}}
{{- define "barnabas.operatorsAuthentication" -}}
{{- $how := .Values.operators.authentication -}}
{{- if ne $how "auto" -}}{{ $how }}
{{- else -}}{{ ternary "certificate" "none" (eq (include "barnabas.internalTlsMode" .) "generated") }}
{{- end -}}
{{- end -}}

{{/* The Secret of the operators' port. */}}
{{- define "barnabas.operationsSecret" -}}
{{- default (printf "%s-operations-tls" (include "barnabas.fullname" .)) .Values.operators.tlsSecret -}}
{{- end -}}

{{/* Whether the controller's pods have a certificate of an admin for their command line. */}}
{{- define "barnabas.hasOperatorSecret" -}}
{{- if and (eq (include "barnabas.operatorsAuthentication" .) "certificate") (not .Values.operators.tlsSecret) -}}yes{{- end -}}
{{- end -}}

{{- define "barnabas.operationsKeys" -}}
{{- $operators := .Values.operators -}}
{{- $how := include "barnabas.operatorsAuthentication" . -}}
operations.authentication: {{ $how }}
{{- if ne $how "none" }}
operations.tls.certificate: /etc/barnabas-operations/tls.crt
operations.tls.key: /etc/barnabas-operations/tls.key
operations.viewers: {{ join "," $operators.viewers | quote }}
operations.operators: {{ join "," $operators.operators | quote }}
operations.admins: {{ join "," $operators.admins | quote }}
{{- end }}
{{- if eq $how "certificate" }}
operations.tls.authority: /etc/barnabas-operations/ca.crt
{{- else if eq $how "token" }}
operations.token.issuer: {{ $operators.token.issuer | quote }}
operations.token.audience: {{ $operators.token.audience | quote }}
operations.token.jwks: {{ $operators.token.jwks | quote }}
operations.token.roles.claim: {{ $operators.token.rolesClaim | quote }}
{{- end }}
{{- end -}}

{{/* What the command line in a controller's pod shows the operators' port: a properties file. */}}
{{- define "barnabas.operatorProperties" -}}
address={{ include "barnabas.fullname" . }}-controller:9090
tls.authority=/etc/barnabas-operator/ca.crt
tls.certificate=/etc/barnabas-operator/tls.crt
tls.key=/etc/barnabas-operator/tls.key
tls.server.name={{ include "barnabas.fullname" . }}-controller
{{- end -}}

{{/* The names of a Service inside Kubernetes. Call with (list . "name"); a YAML list. */}}
{{- define "barnabas.serviceNames" -}}
{{- $qualified := printf "%s.%s" (index . 1) (index . 0).Release.Namespace -}}
{{- toYaml (list (index . 1) $qualified (printf "%s.svc" $qualified) (printf "%s.svc.cluster.local" $qualified)) -}}
{{- end -}}

{{/* The certificates and passwords that a job generates (cli/barnabas_cli/kubernetes/certificates.py). A YAML object. */}}
{{- define "barnabas.wantedSecrets" -}}
{{- $root := . -}}
{{- $name := include "barnabas.fullname" . -}}
{{- $certificates := list -}}
{{- if eq (include "barnabas.internalTlsMode" .) "generated" -}}
{{- range $role := list "controller" "gateway" "logstore" "purgatory" -}}
{{- $certificates = append $certificates (dict "secret" (printf "%s-%s-tls" $name $role) "authority" (printf "%s-internal-ca" $name) "commonName" $role "names" (list (printf "%s.%s" $role $root.Values.internalTls.domain))) -}}
{{- end -}}
{{- end -}}
{{- if eq (include "barnabas.etcdTls" .) "generated" -}}
{{- $etcd := printf "%s-etcd" $name -}}
{{- $hosts := list "localhost" "127.0.0.1" $etcd -}}
{{- range $ordinal := until (int .Values.etcd.bundled.replicas) -}}{{- $hosts = append $hosts (printf "%s-%d.%s" $etcd $ordinal $etcd) -}}{{- end -}}
{{- $certificates = append $certificates (dict "secret" (printf "%s-tls" $etcd) "authority" (printf "%s-ca" $etcd) "commonName" "etcd" "names" $hosts) -}}
{{- $certificates = append $certificates (dict "secret" (printf "%s-client-tls" $etcd) "authority" (printf "%s-ca" $etcd) "commonName" "barnabas" "names" list) -}}
{{- range $role := list "controller" "gateway" "logstore" "purgatory" -}}
{{- $certificates = append $certificates (dict "secret" (printf "%s-%s-tls" $etcd $role) "authority" (printf "%s-ca" $etcd) "commonName" $role "names" list) -}}
{{- end -}}
{{- end -}}
{{- if and (ne (include "barnabas.operatorsAuthentication" .) "none") (not .Values.operators.tlsSecret) -}}
{{- $authority := printf "%s-operators-ca" $name -}}
{{- $names := include "barnabas.serviceNames" (list . (printf "%s-controller" $name)) | fromYamlArray -}}
{{- $certificates = append $certificates (dict "secret" (printf "%s-operations-tls" $name) "authority" $authority "commonName" "operations" "names" $names) -}}
{{- if include "barnabas.hasOperatorSecret" . -}}
{{- range $role := list "viewer" "operator" "admin" -}}
{{- $certificates = append $certificates (dict "secret" (printf "%s-operator-%s" $name $role) "authority" $authority "commonName" $role "names" list) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $certificates = concat $certificates (include "barnabas.metricsCertificates" . | fromYamlArray) -}}
{{- range $listener := include "barnabas.listeners" . | fromYamlArray -}}
{{- if eq (include "barnabas.certificateMode" $listener) "generated" -}}
{{- $names := include "barnabas.namesOfListener" (list $root $listener) | fromYamlArray -}}
{{- $certificates = append $certificates (dict "secret" (include "barnabas.listenerSecret" (list $root $listener)) "authority" (printf "%s-clients-ca" $name) "commonName" "gateway" "names" $names) -}}
{{- end -}}
{{- end -}}
{{- $passwords := list -}}
{{- range $user := .Values.users -}}
{{- if not $user.existingSecret -}}
{{- $passwords = append $passwords (dict "secret" (include "barnabas.userSecret" (list $root $user)) "user" $user.name) -}}
{{- end -}}
{{- end -}}
{{- if or $certificates $passwords -}}
{{- toYaml (dict "certificates" $certificates "passwords" $passwords "labels" (include "barnabas.setupLabels" . | fromYaml)) -}}
{{- end -}}
{{- end -}}

{{/* Labels of what the jobs create: it outlives the release, as volumes do. */}}
{{- define "barnabas.setupLabels" -}}
app.kubernetes.io/name: barnabas
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/part-of: barnabas
{{- end -}}

{{/* The Secret with a user's password. Call with (list . user). */}}
{{- define "barnabas.userSecret" -}}
{{- $user := index . 1 -}}
{{- if $user.existingSecret -}}{{ $user.existingSecret }}
{{- else -}}
{{- $plain := regexReplaceAll "[^a-z0-9-]" (lower $user.name) "-" | trunc 40 | trimAll "-" -}}
{{- /* Another name that is written the same has another Secret. */ -}}
{{- $suffix := ternary "" (printf "-%s" (sha256sum $user.name | trunc 8)) (eq $plain $user.name) -}}
{{- printf "%s-user-%s%s" (include "barnabas.fullname" (index . 0)) $plain $suffix -}}
{{- end -}}
{{- end -}}

{{/* Users and ACLs (cli/barnabas_cli/kubernetes/access.py). A YAML object. */}}
{{- define "barnabas.wantedAccess" -}}
{{- $users := list -}}
{{- range $number, $user := .Values.users -}}
{{- $mechanisms := default (list "SCRAM-SHA-512") $user.mechanisms -}}
{{- $users = append $users (dict "name" $user.name "mechanisms" $mechanisms "passwordFile" (printf "/etc/barnabas-users/%d/password" $number)) -}}
{{- end -}}
{{- $acls := list -}}
{{- range $acl := .Values.acls -}}
{{- $acls = append $acls (merge (dict) $acl (ternary (dict "resourceName" "kafka-cluster") (dict) (eq $acl.resourceType "CLUSTER"))) -}}
{{- end -}}
{{- toYaml (dict "users" $users "acls" $acls "labels" (include "barnabas.setupLabels" . | fromYaml)) -}}
{{- end -}}
