"""A value that is wrong is one clear error, and nothing is rendered."""

from __future__ import annotations

import pytest

from scripts.kubernetes.chart import Values, refusal

pytestmark = pytest.mark.deep

OUTSIDE = {"enabled": True, "trustedNetwork": True, "host": "kafka.example.com"}

CLIENTS = {"name": "CLIENTS", "protocol": "SASL_SSL", "port": 9092, "mechanisms": ["SCRAM-SHA-512"]}
ACL = {"principal": "User:alice", "resourceType": "TOPIC", "operations": ["READ"], "resourceName": "orders"}


def listener(**changes: object) -> Values:
    """Values with one listener; None leaves a key out."""
    return {"listeners": [{key: value for key, value in (CLIENTS | changes).items() if value is not None}]}


REFUSED: dict[str, tuple[Values, str]] = {
    "wrong type": ({"gateway": {"replicas": "two"}}, "at '/gateway/replicas': got string, want integer"),
    "unknown key": ({"gateway": {"replica": 2}}, "at '/gateway': additional properties 'replica' not allowed"),
    "unknown section": ({"broker": {}}, "at '': additional properties 'broker' not allowed"),
    "no logstore": ({"logstore": {"replicas": 0}}, "at '/logstore/replicas': minimum: got 0, want 1"),
    "no gateway": ({"gateway": {"replicas": 0}}, "at '/gateway/replicas': minimum: got 0, want 1"),
    "two members": ({"etcd": {"bundled": {"replicas": 2}}}, "at '/etcd/bundled/replicas': value must be one of 1, 3"),
    "a tag that moves": (
        {"etcd": {"bundled": {"image": "etcd:latest"}}},
        "at '/etcd/bundled/image': 'etcd:latest'",
    ),
    "node port below the range": (
        {"externalAccess": OUTSIDE | {"nodePort": 9092}},
        "at '/externalAccess/nodePort': minimum: got 9,092, want 30,000",
    ),
    "last node port beyond it": (
        {"externalAccess": OUTSIDE | {"nodePort": 32765}},
        "externalAccess.nodePort=32765: 3 logstores have the ports after it up to 32768, and node ports end at 32767",
    ),
    "last port beyond all": (
        {"externalAccess": OUTSIDE | {"type": "LoadBalancer", "port": 65535}},
        "externalAccess.port=65535: 3 logstores have the ports after it up to 65538, and ports end at 65535",
    ),
    "a network without trust": (
        {"externalAccess": {"enabled": True, "host": "kafka.example.com"}},
        "externalAccess: this listener has no authentication and no encryption; set externalAccess.trustedNetwork=true",
    ),
    "no address outside": (
        {"externalAccess": {"enabled": True, "trustedNetwork": True}},
        "externalAccess.host is empty: name the host or address that clients outside connect to",
    ),
    "a directory for lanes that is set twice": (
        {
            "cluster": {"laneDirectory": "/lanes"},
            "gateway": {"extraEnv": [{"name": "BARNABAS_LANE_DIRECTORY", "value": "/tmp"}]},
        },
        "gateway.extraEnv: BARNABAS_LANE_DIRECTORY is set by the chart",
    ),
    "colocated without lanes": (
        {"cluster": {"addressPolicy": "colocated"}},
        "cluster.addressPolicy=colocated needs cluster.laneDirectory",
    ),
    "colocated gateways that scale by themselves": (
        {
            "cluster": {"addressPolicy": "colocated", "laneDirectory": "/lanes"},
            "gateway": {"autoscaling": {"enabled": True}},
        },
        "cluster.addressPolicy=colocated has a gateway for each logstore",
    ),
    "more replicas than logstores": (
        {"logstore": {"replicas": 2}},
        "cluster.defaultReplicationFactor=3 is more than logstore.replicas=2",
    ),
    "a minimum that nothing reaches": (
        {"cluster": {"minInsyncReplicas": 4}},
        "cluster.minInsyncReplicas=4 is more than cluster.defaultReplicationFactor=3",
    ),
    "a role without a certificate": (
        {"internalTls": {"mode": "secrets", "secrets": {"gateway": "x", "logstore": "x", "purgatory": "x"}}},
        "internalTls.secrets.controller is empty",
    ),
    "no etcd": ({"etcd": {"bundled": {"enabled": False}}}, "etcd.external.endpoints is empty: name the members"),
    "two etcds": (
        {"etcd": {"external": {"endpoints": ["etcd:2379"]}}},
        "etcd.external.endpoints are given and etcd.bundled.enabled is true",
    ),
    "an endpoint with a scheme": (
        {"etcd": {"bundled": {"enabled": False}, "external": {"endpoints": ["http://etcd:2379"]}}},
        "at '/etcd/external/endpoints/0': 'http://etcd:2379' does not match pattern",
    ),
    "a certificate from nowhere": (
        {
            "etcd": {
                "bundled": {"enabled": False},
                "external": {"endpoints": ["etcd:2379"], "tls": {"clientCertificate": True}},
            }
        },
        "etcd.external.tls.clientCertificate needs etcd.external.tls.existingSecret",
    ),
    "a key of the chart's": (
        {"gateway": {"config": {"listeners": "PLAINTEXT://0.0.0.0:1"}}},
        "gateway.config: listeners is set by the chart",
    ),
    "a key of each pod's": ({"logstore": {"config": {"node.id": 7}}}, "logstore.config: node.id is set by the chart"),
    "a variable of the chart's": (
        {"logstore": {"extraEnv": [{"name": "BARNABAS_NODE_ID", "value": "7"}]}},
        "logstore.extraEnv: BARNABAS_NODE_ID is set by the chart",
    ),
    "a label that pods are found by": (
        {"gateway": {"podLabels": {"app.kubernetes.io/component": "edge"}}},
        "commonLabels, gateway.podLabels: app.kubernetes.io/component is set by the chart",
    ),
    "such a label for all": (
        {"commonLabels": {"app.kubernetes.io/instance": "mine"}},
        "app.kubernetes.io/instance is set by the chart",
    ),
    "two lines in one value": (
        {"logstore": {"config": {"log.cleanup.policy": "delete\nnode.id=7"}}},
        "at '/logstore/config/log.cleanup.policy'",
    ),
    "no time to drain": (
        {"gateway": {"drainSeconds": 25}},
        "gateway.terminationGracePeriodSeconds=30 is too short for gateway.drainSeconds=25 and 10 s",
    ),
    "an unknown protocol": (listener(protocol="TLS"), "at '/listeners/0/protocol': value must be one of"),
    "a listener without a port": (listener(port=None), "at '/listeners/0': missing property 'port'"),
    "an unknown mechanism": (listener(mechanisms=["PLAIN"]), "at '/listeners/0/mechanisms/0': value must be one of"),
    "SASL without a mechanism": (listener(mechanisms=None), "listeners.CLIENTS.mechanisms is needed for SASL_SSL"),
    "a mechanism without SASL": (listener(protocol="SSL"), "listeners.CLIENTS.mechanisms: SSL has no SASL"),
    "a certificate without TLS": (
        listener(protocol="SASL_PLAINTEXT", certificate={"mode": "generated"}),
        "listeners.CLIENTS.certificate: SASL_PLAINTEXT has no TLS",
    ),
    "clients' certificates of whom": (
        listener(clientAuth="required"),
        "listeners.CLIENTS.clientAuthority is needed for clientAuth=required",
    ),
    "a Secret without a name": (
        listener(certificate={"mode": "secret"}),
        "listeners.CLIENTS.certificate.secretName is empty: name the Secret with keystore.pem",
    ),
    "an issuer without a name": (
        listener(certificate={"mode": "certManager"}),
        "listeners.CLIENTS.certificate.issuerRef.name is empty",
    ),
    "two of a name": (
        {"listeners": [CLIENTS, CLIENTS | {"name": "clients", "port": 19092}]},
        "listeners: clients is there twice (upper and lower case are the same)",
    ),
    "two of a port": (
        {"listeners": [CLIENTS, CLIENTS | {"name": "OTHERS", "port": 9095}]},
        "listeners.OTHERS has the ports 9095 to 9098, of which CLIENTS has some: 9092 to 9095",
    ),
    "the port of metrics": (listener(port=9402), "listeners.CLIENTS has the ports 9402 to 9405, of which metrics has"),
    "a protocol's name for another": (
        listener(name="PLAINTEXT"),
        "listeners.PLAINTEXT: a listener that is called after a protocol has that protocol, not SASL_SSL",
    ),
    "outside without protection": (
        listener(
            protocol="SASL_PLAINTEXT",
            external={"type": "NodePort", "host": "kafka.example.com", "nodePort": 32092},
        ),
        "listeners.CLIENTS.external: SASL_PLAINTEXT without a required certificate lets others read along, or in",
    ),
    "outside without a node port": (
        listener(external={"type": "NodePort", "host": "kafka.example.com"}),
        "listeners.CLIENTS.external.nodePort is needed for type=NodePort",
    ),
    "a node port too high": (
        listener(external={"type": "NodePort", "host": "kafka.example.com", "nodePort": 32766}),
        "listeners.CLIENTS.external.nodePort=32766: 3 logstores have the ports after it up to 32769",
    ),
    "both ways outside": (
        listener() | {"externalAccess": OUTSIDE},
        "externalAccess is for the chart's own listeners: give listeners[].external instead",
    ),
    "users that nothing asks for": (
        {"users": [{"name": "alice"}]},
        "users: alice has SCRAM-SHA-512, which no listener offers",
    ),
    "a user twice": (listener() | {"users": [{"name": "alice"}, {"name": "alice"}]}, "users: alice is there twice"),
    "ACLs without an authorizer": ({"acls": [ACL]}, "acls have no effect without authorization.enabled=true"),
    "an ACL on nothing": (
        {"authorization": {"enabled": True}, "acls": [{key: ACL[key] for key in ACL if key != "resourceName"}]},
        "acls: one of User:alice on a TOPIC has no resourceName (* is all of them)",
    ),
    "an ACL of no principal": (
        {"authorization": {"enabled": True}, "acls": [ACL | {"principal": "alice"}]},
        "at '/acls/0/principal': 'alice' does not match pattern",
    ),
    "an unknown operation": (
        {"authorization": {"enabled": True}, "acls": [ACL | {"operations": ["FLY"]}]},
        "at '/acls/0/operations/0': value must be one of",
    ),
    "super users that hide another": (
        {"authorization": {"enabled": True, "superUsers": ["User:a;User:b"]}},
        "at '/authorization/superUsers/0': 'User:a;User:b' does not match pattern",
    ),
    "tokens of whom": (
        {"operators": {"authentication": "token"}},
        "operators.token.issuer is needed for operators.authentication=token",
    ),
    "health by a certificate that pods do not have": (
        {"internalTls": {"mode": "none"}, "health": {"tls": {"enabled": True}}},
        "health.tls.enabled needs internalTls",
    ),
    "probes' certificates in the clear": (
        {"health": {"tls": {"clientAuth": "required"}}},
        "health.tls.clientAuth=required: without TLS no caller shows a certificate",
    ),
    "a token in the clear": (
        {"metrics": {"token": {"secretName": "scrape-token"}}},
        "metrics.token.secretName: a token is a secret, so it needs TLS: set metrics.tls.mode",
    ),
    "scrapers' certificates in the clear": (
        {"metrics": {"tls": {"clientAuth": "required"}}},
        "metrics.tls.clientAuth=required: without TLS no scraper shows a certificate",
    ),
    "metrics by a Secret without a name": (
        {"metrics": {"tls": {"mode": "secret"}}},
        "metrics.tls.secretName is empty: name the Secret with tls.crt, tls.key and ca.crt",
    ),
    "metrics by an issuer without a name": (
        {"metrics": {"tls": {"mode": "certManager"}}},
        "metrics.tls.issuerRef.name is empty: name the issuer of the certificate",
    ),
    "scrapers' certificates of whom": (
        {"metrics": {"tls": {"mode": "secret", "secretName": "metrics-keys", "clientAuth": "required"}}},
        "metrics.tls.clientAuthority.secretName is needed for clientAuth=required",
    ),
    "a ServiceMonitor without the certificate that it needs": (
        {
            "metrics": {
                "serviceMonitor": {"enabled": True},
                "tls": {
                    "mode": "generated",
                    "clientAuth": "required",
                    "clientAuthority": {"secretName": "scrapers-ca"},
                },
            }
        },
        "metrics.tls.scraperSecret is empty: name the Secret with tls.crt and tls.key",
    ),
    "a key of metrics' TLS that is set twice": (
        {"metrics": {"tls": {"mode": "generated"}}, "logstore": {"config": {"metrics.tls.key": "/data/key"}}},
        "logstore.config: metrics.tls.key is set by the chart",
    ),
    "a password without a user": (
        {
            "etcd": {
                "bundled": {"enabled": False},
                "external": {"endpoints": ["etcd:2379"], "passwordSecret": {"name": "x"}},
            }
        },
        "etcd.external.user and etcd.external.passwordSecret.name are needed together",
    ),
    "a budget that is two": (
        {"logstore": {"podDisruptionBudget": {"maxUnavailable": 1, "minAvailable": 1}}},
        "at '/logstore/podDisruptionBudget': maxProperties: got 2, want 1",
    ),
    "autoscaling backwards": (
        {"gateway": {"autoscaling": {"enabled": True, "minReplicas": 9}}},
        "gateway.autoscaling.minReplicas=9 is more than maxReplicas=6",
    ),
    "a size that is none": (
        {"logstore": {"persistence": {"size": "much"}}},
        "at '/logstore/persistence/size': 'much' does not match pattern",
    ),
}


@pytest.mark.parametrize(("values", "line"), REFUSED.values(), ids=REFUSED.keys())
def test_a_wrong_value_is_one_clear_error(values: Values, line: str) -> None:
    assert line in refusal(values)
