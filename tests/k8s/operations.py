"""One call of the ops API from where the cluster is reached: `python -m tests.k8s.operations ADDRESSES METHOD JSON`, in
the clear, or with the certificate in a directory and the server's name: `… DIRECTORY NAME`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import grpc
from google.protobuf.json_format import MessageToJson, Parse

from barnabas_protos.controller.v1 import operations_pb2 as pb
from barnabas_protos.controller.v1.operations_pb2_grpc import OperationsStub

# Another controller is the active one, or this one is gone.
ASK_ANOTHER = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAVAILABLE)


def main() -> None:
    addresses, method, text, *certificate = sys.argv[1:]
    request = Parse(text, getattr(pb, f"{method}Request")())
    said = "no controller"
    for address in addresses.split(","):
        with channel_to(address, certificate) as channel:
            try:
                print(MessageToJson(getattr(OperationsStub(channel), method)(request, timeout=30)))
                return
            except grpc.RpcError as error:
                said = f"{error.code().name}: {error.details()}"
                if error.code() not in ASK_ANOTHER:
                    break
    sys.exit(said)


def channel_to(address: str, certificate: list[str]) -> grpc.Channel:
    options: list[tuple[str, object]] = [("grpc.enable_http_proxy", 0)]
    if not certificate:
        return grpc.insecure_channel(address, options=options)
    directory, name = certificate
    authority, key, chain = (Path(directory, each).read_bytes() for each in ("ca.crt", "tls.key", "tls.crt"))
    options.append(("grpc.ssl_target_name_override", name))
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(authority, key, chain), options=options)


if __name__ == "__main__":
    main()
