"""`up`, `down`, `status`, `logs`, `doctor`: commands for the cluster as a whole."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from barnabas_cli import doctor as checks
from barnabas_cli.commands.remote_status import show_remote_status
from barnabas_cli.etcd_binary import EtcdMissingError
from barnabas_cli.local import ports
from barnabas_cli.local.cluster import ClusterError, cluster_to_start, existing_cluster, sole_command
from barnabas_cli.local.layout import HOST, ClusterDirectory, ClusterLayout, LayoutError, settle_layout
from barnabas_cli.local.processes import last_lines
from barnabas_cli.operator_access import OperatorAccess, access_options
from barnabas_cli.terminal import clear_errors, data_dir_option, print_table

_FOLLOW_SECONDS = 0.2


@click.command()
@data_dir_option
@click.option("--logstores", type=int, help="Number of logstores; can be increased later.  [default: 1]")
@click.option("--port", type=click.IntRange(1024, 65000), help="Bootstrap port.  [default: 9092]")
@click.option(
    "--secure/--no-secure", default=None, help="Whether clients need TLS and a password; creates both.  [default: no]"
)
@click.option(
    "--supervisor/--no-supervisor",
    "supervised",
    default=True,
    show_default=True,
    help="Whether a small process stays, which restarts services that die.",
)
def up(
    directory: ClusterDirectory, logstores: int | None, port: int | None, secure: bool | None, supervised: bool
) -> None:
    """Start the cluster in the background, and return when a client can produce.

    Starts only what does not run, and moves services that run other cores than a process that starts now would, such
    as after `make compiled`, one by one onto those. A service that dies later is restarted by the supervisor, which
    `down` stops, too.
    """
    with clear_errors(ClusterError, LayoutError, EtcdMissingError), sole_command(directory):
        layout = settle_layout(directory, port, logstores, secure, ports.is_free)
        started = cluster_to_start(directory, layout, click.echo).start(click.echo, supervised=supervised)
    if started.services:
        click.secho(f"up in {started.seconds:.1f} s: {', '.join(started.services)}", fg="green")
    elif started.supervisor or not started.moved:
        click.secho(f"already up{'; the supervisor was started' if started.supervisor else ''}", fg="green")
    for cores in dict.fromkeys(started.moved.values()):
        names = [name for name, taken in started.moved.items() if taken == cores]
        click.secho(f"moved to {cores}, one by one: {', '.join(names)}", fg="green")
    _say_what_to_type(directory, layout)


def _say_what_to_type(directory: ClusterDirectory, layout: ClusterLayout) -> None:
    bootstrap = f"{HOST}:{layout.kafka_port}"
    command = _command_to_type()
    where = "" if directory.path == Path("data").absolute() else f" --data-dir {directory.path}"
    if layout.secure:
        click.echo(f"\nKafka clients:\n{directory.client_properties_path.read_text().rstrip()}")
        properties = directory.secrets_path
        click.echo(f"""
These properties are in {properties}/client.properties,
those for kcat and librdkafka in {properties}/librdkafka.properties.
Operators:      {HOST}:{layout.operations_port} (gRPC with a certificate: {properties}/operators has those of
                a viewer, an operator and an admin; commands in this directory use the admin's)

Try:
  echo hello | {command} produce greetings{where}
  {command} consume greetings --count 1{where}
  kcat -F {properties}/librdkafka.properties -L
  {command} status{where}""")
        return
    click.echo(f"""
Kafka clients:  bootstrap.servers={bootstrap}
Operators:      {HOST}:{layout.operations_port} (gRPC, reflection on)

Try:
  echo hello | {command} produce greetings{where}
  {command} consume greetings --count 1{where}
  kcat -b {bootstrap} -L
  {command} status{where}""")


def _command_to_type() -> str:
    """Return `barnabas` if the shell finds it, else its path in the checkout's environment."""
    import shutil
    import sys

    beside = Path(sys.executable).parent / "barnabas"
    if shutil.which("barnabas") or not beside.exists():
        return "barnabas"
    return os.path.relpath(beside)


@click.command()
@data_dir_option
def down(directory: ClusterDirectory) -> None:
    """Stop the cluster. Its data is kept."""
    with clear_errors(ClusterError, LayoutError):
        cluster = existing_cluster(directory)
        with sole_command(directory):
            stopped, killed = cluster.stop()
    if killed:
        click.secho(f"had to be killed: {', '.join(killed)}; their data is recovered by the next `up`", fg="yellow")
    click.echo(f"down: {', '.join(stopped)}" if stopped else "nothing was running")


@click.command()
@data_dir_option
@access_options
@click.option("--json", "as_json", is_flag=True, help="Print all details, with addresses, as JSON.")
def status(directory: ClusterDirectory, access: OperatorAccess | None, as_json: bool) -> None:
    """Show which services run and which do not. The exit code is 0 if the cluster is healthy."""
    if access is not None and access.address:
        raise SystemExit(show_remote_status(access, as_json))
    from barnabas_cli.local.status import State, inspect

    with clear_errors(LayoutError):
        found = inspect(existing_cluster(directory))
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        raise SystemExit(0 if found.healthy else 1)
    rows: list[tuple[object, ...]] = [
        (service.name, service.state, service.pid or "-", ", ".join(f"{k} {v}" for k, v in service.addresses.items()))
        for service in found.services
    ]
    rows.append(("supervisor", found.supervisor.state, found.supervisor.pid or "-", "restarts services that die"))
    print_table(("SERVICE", "STATE", "PID", "ADDRESSES"), rows)
    click.echo()
    for service in found.services:
        if service.state is not State.UP:
            click.secho(f"{service.name} is {service.state}: {service.problem}", fg="red")
            click.echo(f"  {service.advice}")
    for problem in found.problems:
        click.secho(problem, fg="red")
    for notice in found.notices:
        click.secho(notice, fg="yellow")
    if found.healthy:
        cores = f", {found.cores} cores" if found.cores else ""
        counts = f"topics {found.topics}, partitions {found.partitions}{cores}"
        click.secho(f"healthy at {found.bootstrap}: {counts}", fg="green")
    raise SystemExit(0 if found.healthy else 1)


@click.command()
@data_dir_option
@click.argument("service", required=False)
@click.option("-n", "--lines", default=20, show_default=True, help="Number of lines of each log.")
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines.")
def logs(directory: ClusterDirectory, service: str | None, lines: int, follow: bool) -> None:
    """Show the logs of SERVICE, or of all services."""
    with clear_errors(ClusterError, LayoutError):
        cluster = existing_cluster(directory)
        services = cluster.services if service is None else [cluster.service(service)]
    paths = {each.name: directory.log_path(each.name) for each in services}
    positions = {name: path.stat().st_size if path.exists() else 0 for name, path in paths.items()}
    for name, path in paths.items():
        for line in last_lines(path, lines):
            _print_log_line(name, line, len(paths) > 1)
    while follow:
        for name, path in paths.items():
            positions[name] = _print_new_lines(name, path, positions[name], len(paths) > 1)
        time.sleep(_FOLLOW_SECONDS)


def _print_new_lines(name: str, path: Path, position: int, with_name: bool) -> int:
    """Print the complete lines after a position, and return the new position."""
    if not path.exists():
        return 0
    if path.stat().st_size < position:
        position = 0  # the log was rotated
    with path.open("rb") as log:
        log.seek(position)
        text = log.read()
    whole = text[: text.rfind(b"\n") + 1]
    for line in whole.decode(errors="replace").splitlines():
        _print_log_line(name, line, with_name)
    return position + len(whole)


def _print_log_line(name: str, line: str, with_name: bool) -> None:
    click.echo(f"{click.style(name, bold=True)}  {line}" if with_name else line)


@click.command()
@data_dir_option
@click.option("--port", type=click.IntRange(1024, 65000), help="Check for a cluster on this port.  [default: 9092]")
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE.tar.gz",
    help="Write a diagnostic bundle for a bug report to a file instead.",
)
@access_options
def doctor(directory: ClusterDirectory, port: int | None, bundle: Path | None, access: OperatorAccess | None) -> None:
    """Check whether a cluster can run here and what to change if not, or write a diagnostic bundle."""
    if bundle is not None:
        _write_bundle(directory, bundle, access)
        return
    with clear_errors(LayoutError):
        findings = checks.examine(directory, settle_layout(directory, port, None, is_free=ports.is_free))
    for finding in findings:
        mark, colour = {True: ("ok", "green"), None: ("note", "yellow"), False: ("BAD", "red")}[finding.is_well]
        click.echo(f"{click.style(mark.ljust(4), fg=colour)}  {finding.what}")
        if finding.advice:
            click.echo(f"      {finding.advice}")
    raise SystemExit(0 if all(finding.is_well is not False for finding in findings) else 1)


def _write_bundle(directory: ClusterDirectory, path: Path, access: OperatorAccess | None) -> None:
    from barnabas_cli.bundle import gather_bundle
    from barnabas_cli.operations import OperationsError

    with clear_errors(LayoutError, OperationsError, OSError):
        bundle = gather_bundle(directory, access)
        bundle.write(path)
    for name, why in sorted(bundle.missing.items()):
        click.secho(f"missing: {name}: {why}", fg="yellow", err=True)
    size = path.stat().st_size / (1 << 20)
    click.echo(f"{path}: {len(bundle.entries)} entries, {size:.1f} MiB; review the logs before you share it")
