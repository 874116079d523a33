"""`probe`: ask for the health of one service, as Kubernetes does where there is no TLS."""

from __future__ import annotations

import click

from barnabas_cli.operator_access import AccessError, access_of


@click.command()
@click.argument("address", metavar="HOST:PORT")
@click.option("--service", default="", help="The health of this service alone, such as liveness or in-sync.")
@click.option("--tls-authority", default="", metavar="PEM", help="CA of the service's certificate; enables TLS.")
@click.option("--tls-certificate", default="", metavar="PEM", help="Certificate to show the service.")
@click.option("--tls-key", default="", metavar="PEM", help="Private key of the certificate.")
@click.option("--tls-server-name", default="", metavar="NAME", help="A name in the service's certificate.")
@click.option("--timeout", default=5.0, show_default=True, metavar="SECONDS")
def probe(address: str, service: str, timeout: float, **tls: str) -> None:
    """Ask for health at HOST:PORT of `health.listeners`, or of a gateway's `ops.listeners`.

    The exit code is 0 if it is SERVING, otherwise 1. For probes that run a command: those of Kubernetes have no TLS.
    """
    import grpc  # a fifth of a second, of which `--help` has no use
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    try:
        access = access_of({name.replace("_", "."): value for name, value in tls.items()})
        channel = access.channel(address, address)
    except AccessError as error:
        raise click.UsageError(str(error)) from None
    with channel:
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            status = health_pb2_grpc.HealthStub(channel).Check(request, timeout=timeout).status
        except grpc.RpcError as error:
            raise click.ClickException(f"{address}: {error.code().name}: {error.details()}") from None
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(status)
    click.echo(name)
    raise SystemExit(0 if status == health_pb2.HealthCheckResponse.SERVING else 1)
