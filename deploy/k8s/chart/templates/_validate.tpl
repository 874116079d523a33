{{/* Checks of values against each other that a schema can't express: they fail with one line, and nothing is rendered. */}}
{{- define "barnabas.validate" -}}
{{- $values := .Values -}}
{{- $logstores := int $values.logstore.replicas -}}
{{- $external := $values.externalAccess -}}
{{- if $external.enabled -}}
{{- if $values.listeners -}}
{{- fail "externalAccess is for the chart's own listeners: give listeners[].external instead, and set externalAccess.enabled=false" -}}
{{- end -}}
{{- if not $external.trustedNetwork -}}
{{- fail "externalAccess: this listener has no authentication and no encryption; set externalAccess.trustedNetwork=true to state that any client that can reach the port may read and write all topics, or use `listeners`" -}}
{{- end -}}
{{- if not $external.host -}}
{{- fail "externalAccess.host is empty: name the host or address that clients outside connect to" -}}
{{- end -}}
{{- end -}}
{{- include "barnabas.validateListeners" . -}}
{{- include "barnabas.validateAccess" . -}}
{{- include "barnabas.validateMetrics" . -}}
{{- if and .Values.health.tls.enabled (eq (include "barnabas.internalTlsMode" .) "none") -}}
{{- fail "health.tls.enabled needs internalTls: its certificate is the one of the pod for the other services" -}}
{{- end -}}
{{- if and (eq .Values.health.tls.clientAuth "required") (not .Values.health.tls.enabled) -}}
{{- fail "health.tls.clientAuth=required: without TLS no caller shows a certificate: set health.tls.enabled" -}}
{{- end -}}
{{- if eq $values.cluster.addressPolicy "colocated" -}}
{{- if not $values.cluster.laneDirectory -}}
{{- fail "cluster.addressPolicy=colocated needs cluster.laneDirectory: without it a gateway and its logstore exchange messages by the network all the same" -}}
{{- end -}}
{{- if $values.gateway.autoscaling.enabled -}}
{{- fail "cluster.addressPolicy=colocated has a gateway for each logstore: set gateway.autoscaling.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- $replication := int $values.cluster.defaultReplicationFactor -}}
{{- if gt $replication $logstores -}}
{{- fail (printf "cluster.defaultReplicationFactor=%d is more than logstore.replicas=%d" $replication $logstores) -}}
{{- end -}}
{{- if gt (int $values.cluster.minInsyncReplicas) $replication -}}
{{- fail (printf "cluster.minInsyncReplicas=%d is more than cluster.defaultReplicationFactor=%d: no append with acks=all would succeed" (int $values.cluster.minInsyncReplicas) $replication) -}}
{{- end -}}
{{- if and $values.etcd.bundled.enabled $values.etcd.external.endpoints -}}
{{- fail "etcd.external.endpoints are given and etcd.bundled.enabled is true: set it to false to use them" -}}
{{- end -}}
{{- if and $values.etcd.bundled.enabled $values.etcd.bundled.limitUsers (eq (include "barnabas.etcdTls" .) "none") (eq (include "barnabas.liveEtcdTls" .) "generated") -}}
{{- fail "etcd.bundled.tls=none: this etcd knows its clients by their certificates, and would refuse all; upgrade with etcd.bundled.limitUsers=false and --wait-for-jobs first, then with both" -}}
{{- end -}}
{{- if not (or $values.etcd.bundled.enabled $values.etcd.external.endpoints) -}}
{{- fail "etcd.external.endpoints is empty: name the members (host:port), or set etcd.bundled.enabled=true for a trial" -}}
{{- end -}}
{{- if and $values.etcd.external.tls.clientCertificate (not $values.etcd.external.tls.existingSecret) -}}
{{- fail "etcd.external.tls.clientCertificate needs etcd.external.tls.existingSecret, with ca.crt, tls.crt and tls.key" -}}
{{- end -}}
{{- $etcdUser := $values.etcd.external -}}
{{- if ne (empty $etcdUser.user) (empty $etcdUser.passwordSecret.name) -}}
{{- fail "etcd.external.user and etcd.external.passwordSecret.name are needed together" -}}
{{- end -}}
{{- if eq $values.internalTls.mode "secrets" -}}
{{- range $role, $secret := $values.internalTls.secrets -}}
{{- if not $secret -}}
{{- fail (printf "internalTls.secrets.%s is empty: name the Secret with ca.crt, tls.crt and tls.key of that role" $role) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $scaling := $values.gateway.autoscaling -}}
{{- if and $scaling.enabled (gt (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- fail (printf "gateway.autoscaling.minReplicas=%d is more than maxReplicas=%d" (int $scaling.minReplicas) (int $scaling.maxReplicas)) -}}
{{- end -}}
{{- if lt (int $values.gateway.terminationGracePeriodSeconds) (add (int $values.gateway.drainSeconds) 10 | int) -}}
{{- fail (printf "gateway.terminationGracePeriodSeconds=%d is too short for gateway.drainSeconds=%d and 10 s to close connections" (int $values.gateway.terminationGracePeriodSeconds) (int $values.gateway.drainSeconds)) -}}
{{- end -}}
{{- range $role := list "gateway" "logstore" "purgatory" "controller" -}}
{{- $shared := include "barnabas.keys" $ | fromYaml -}}
{{- $own := include (printf "barnabas.keys.%s" $role) $ | fromYaml -}}
{{- $variables := list "POD_NAME" "POD_IP" -}}
{{- if $values.cluster.laneDirectory -}}{{- $variables = append $variables "BARNABAS_LANE_DIRECTORY" -}}{{- end -}}
{{- if $values.etcd.external.passwordSecret.name -}}{{- $variables = append $variables "BARNABAS_ETCD_PASSWORD" -}}{{- end -}}
{{- range include (printf "barnabas.environment.%s" $role) $ | fromYamlArray -}}{{- $variables = append $variables .name -}}{{- end -}}
{{- range (index $values $role).extraEnv -}}
{{- if has .name $variables -}}
{{- fail (printf "%s.extraEnv: %s is set by the chart" $role .name) -}}
{{- end -}}
{{- end -}}
{{- $labels := include "barnabas.labels" (list (dict "Release" $.Release "Chart" $.Chart "Values" dict) $role) | fromYaml -}}
{{- range $label := concat (keys $values.commonLabels) (keys (index $values $role).podLabels) | sortAlpha -}}
{{- if hasKey $labels $label -}}
{{- fail (printf "commonLabels, %s.podLabels: %s is set by the chart, as a selector of pods" $role $label) -}}
{{- end -}}
{{- end -}}
{{- $perPod := list "gateway.id" "node.id" "broker.id" "pod.id" "controller.id" "advertised.listeners" "broker.rack" "log.dir" -}}
{{- range $key, $value := (index $values $role).config -}}
{{- if or (hasKey $shared $key) (hasKey $own $key) (has $key $perPod) -}}
{{- fail (printf "%s.config: %s is set by the chart" $role $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "barnabas.validateScaleDown" . -}}
{{- include "barnabas.validateChangeOfTls" . -}}
{{- end -}}

{{- define "barnabas.validateListeners" -}}
{{- $listeners := include "barnabas.listeners" . | fromYamlArray -}}
{{- $count := include "barnabas.portsOfListener" . | int -}}
{{- $logstores := int .Values.logstore.replicas -}}
{{- $names := list -}}
{{- $taken := list (dict "name" "health" "first" 9400 "last" 9401) (dict "name" "metrics" "first" 9404 "last" 9404) -}}
{{- range $listener := $listeners -}}
{{- $name := $listener.name -}}
{{- $hasSasl := hasPrefix "SASL_" $listener.protocol -}}
{{- $hasTls := hasSuffix "SSL" $listener.protocol -}}
{{- if has (lower $name) $names -}}{{- fail (printf "listeners: %s is there twice (upper and lower case are the same)" $name) -}}{{- end -}}
{{- $names = append $names (lower $name) -}}
{{- if and (has $name (list "PLAINTEXT" "SSL" "SASL_PLAINTEXT" "SASL_SSL")) (ne $name $listener.protocol) -}}
{{- fail (printf "listeners.%s: a listener that is called after a protocol has that protocol, not %s" $name $listener.protocol) -}}
{{- end -}}
{{- if and $hasSasl (not $listener.mechanisms) -}}
{{- fail (printf "listeners.%s.mechanisms is needed for %s: some of SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER" $name $listener.protocol) -}}
{{- end -}}
{{- if and $listener.mechanisms (not $hasSasl) -}}{{- fail (printf "listeners.%s.mechanisms: %s has no SASL" $name $listener.protocol) -}}{{- end -}}
{{- range $key := list "certificate" "clientAuth" "clientAuthority" -}}
{{- if and (index $listener $key) (not $hasTls) -}}{{- fail (printf "listeners.%s.%s: %s has no TLS" $name $key $listener.protocol) -}}{{- end -}}
{{- end -}}
{{- $clientAuth := default "none" $listener.clientAuth -}}
{{- if and (ne $clientAuth "none") (not $listener.clientAuthority) -}}
{{- fail (printf "listeners.%s.clientAuthority is needed for clientAuth=%s: the Secret with the authority of clients' certificates" $name $clientAuth) -}}
{{- end -}}
{{- $certificate := default dict $listener.certificate -}}
{{- if and (eq (default "generated" $certificate.mode) "secret") (not $certificate.secretName) -}}
{{- fail (printf "listeners.%s.certificate.secretName is empty: name the Secret with keystore.pem" $name) -}}
{{- end -}}
{{- if and (eq (default "generated" $certificate.mode) "certManager") (not (default dict $certificate.issuerRef).name) -}}
{{- fail (printf "listeners.%s.certificate.issuerRef.name is empty: name the issuer that clients trust" $name) -}}
{{- end -}}
{{- $first := int $listener.port -}}
{{- $last := add $first $count -1 | int -}}
{{- if gt $last 65535 -}}{{- fail (printf "listeners.%s.port=%d: %d logstores have the ports after it up to %d, and ports end at 65535" $name $first $logstores $last) -}}{{- end -}}
{{- range $taken -}}
{{- if and (le $first .last) (ge $last .first) -}}
{{- fail (printf "listeners.%s has the ports %d to %d, of which %s has some: %d to %d" $name $first $last .name .first .last) -}}
{{- end -}}
{{- end -}}
{{- $taken = append $taken (dict "name" $name "first" $first "last" $last) -}}
{{- if $listener.external -}}
{{- $external := $listener.external -}}
{{- $isOwn := empty $.Values.listeners -}}
{{- $what := ternary "externalAccess" (printf "listeners.%s.external" $name) $isOwn -}}
{{- $isProtected := or (eq $listener.protocol "SASL_SSL") (and (eq $listener.protocol "SSL") (eq $clientAuth "required")) -}}
{{- if not (or $isProtected $external.trustedNetwork) -}}
{{- fail (printf "%s: %s without a required certificate lets others read along, or in; use SASL_SSL, or set %s.trustedNetwork=true" $what $listener.protocol $what) -}}
{{- end -}}
{{- if and (eq $external.type "NodePort") (not $external.nodePort) -}}{{- fail (printf "%s.nodePort is needed for type=NodePort" $what) -}}{{- end -}}
{{- $outside := include "barnabas.externalPortOf" $listener | int -}}
{{- $end := add $outside $count -1 | int -}}
{{- if and (eq $external.type "NodePort") (gt $end 32767) -}}
{{- fail (printf "%s.nodePort=%d: %d logstores have the ports after it up to %d, and node ports end at 32767" $what $outside $logstores $end) -}}
{{- end -}}
{{- if gt $end 65535 -}}
{{- fail (printf "%s.port=%d: %d logstores have the ports after it up to %d, and ports end at 65535" $what $outside $logstores $end) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "barnabas.validateAccess" -}}
{{- $values := .Values -}}
{{- $offered := list -}}
{{- range include "barnabas.listeners" . | fromYamlArray -}}{{- $offered = concat $offered (default list .mechanisms) -}}{{- end -}}
{{- $names := list -}}
{{- range $user := $values.users -}}
{{- if has $user.name $names -}}{{- fail (printf "users: %s is there twice" $user.name) -}}{{- end -}}
{{- $names = append $names $user.name -}}
{{- range $mechanism := default (list "SCRAM-SHA-512") $user.mechanisms -}}
{{- if not (has $mechanism $offered) -}}{{- fail (printf "users: %s has %s, which no listener offers" $user.name $mechanism) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $values.acls (not $values.authorization.enabled) -}}
{{- fail "acls have no effect without authorization.enabled=true" -}}
{{- end -}}
{{- range $acl := $values.acls -}}
{{- if and (not $acl.resourceName) (ne $acl.resourceType "CLUSTER") -}}
{{- fail (printf "acls: one of %s on a %s has no resourceName (* is all of them)" $acl.principal $acl.resourceType) -}}
{{- end -}}
{{- end -}}
{{- $operators := $values.operators -}}
{{- if eq $operators.authentication "token" -}}
{{- range $key := list "issuer" "audience" "jwks" -}}
{{- if not (index $operators.token $key) -}}{{- fail (printf "operators.token.%s is needed for operators.authentication=token" $key) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Only a live cluster has the previous mode: `helm template` sees none. */}}
{{- define "barnabas.validateChangeOfTls" -}}
{{- $name := include "barnabas.fullname" . -}}
{{- $logstores := lookup "apps/v1" "StatefulSet" .Release.Namespace (printf "%s-logstore" $name) -}}
{{- if $logstores -}}
{{- $isRunning := gt (int (default 0 $logstores.status.replicas)) 0 -}}
{{- $before := include "barnabas.liveInternalTls" . -}}
{{- $after := include "barnabas.internalTlsMode" . -}}
{{- if and $isRunning $before (ne $before $after) -}}
{{- fail (printf "internalTls.mode=%s: the release runs with %s, and services of both do not understand each other: scale all of it to 0 first (docs/operate/upgrade.md), or set internalTls.mode=%s" $after $before $before) -}}
{{- end -}}
{{- $etcdBefore := include "barnabas.liveEtcdTls" . -}}
{{- $etcdAfter := include "barnabas.etcdTls" . -}}
{{- if and $etcdBefore .Values.etcd.bundled.enabled (ne $etcdBefore $etcdAfter) -}}
{{- if or $isRunning (gt (int .Values.etcd.bundled.replicas) 1) -}}
{{- fail (printf "etcd.bundled.tls=%s: the bundled etcd runs with %s; it changes only with one member and while all services are scaled to 0 (docs/operate/upgrade.md)" $etcdAfter $etcdBefore) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Only a live cluster has the previous number of logstores: `helm template` sees none. */}}
{{- define "barnabas.validateScaleDown" -}}
{{- $values := .Values.logstore -}}
{{- $name := printf "%s-logstore" (include "barnabas.fullname" .) -}}
{{- $live := lookup "apps/v1" "StatefulSet" .Release.Namespace $name -}}
{{- if $live -}}
{{- $drained := list -}}
{{- range $values.drained -}}{{- $drained = append $drained (int .) -}}{{- end -}}
{{- range $id := untilStep (int $values.replicas) (int $live.spec.replicas) 1 -}}
{{- if not (has $id $drained) -}}
{{- fail (printf "logstore.replicas=%d removes logstore %d: drain it first, then confirm with --set logstore.drained={%d}" (int $values.replicas) $id $id) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
