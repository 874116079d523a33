"""One call of the ops API from where the cluster is reached: `python -m tests.k8s.operations ADDRESSES METHOD JSON`."""

from __future__ import annotations

import sys

import grpc
from google.protobuf.json_format import MessageToJson, Parse

from barnabas_protos.controller.v1 import operations_pb2 as pb
from barnabas_protos.controller.v1.operations_pb2_grpc import OperationsStub

# Another controller is the active one, or this one is gone.
ASK_ANOTHER = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAVAILABLE)


def main() -> None:
    addresses, method, text = sys.argv[1:]
    request = Parse(text, getattr(pb, f"{method}Request")())
    said = "no controller"
    for address in addresses.split(","):
        with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            try:
                print(MessageToJson(getattr(OperationsStub(channel), method)(request, timeout=30)))
                return
            except grpc.RpcError as error:
                said = f"{error.code().name}: {error.details()}"
                if error.code() not in ASK_ANOTHER:
                    break
    sys.exit(said)


if __name__ == "__main__":
    main()
