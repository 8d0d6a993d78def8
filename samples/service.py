"""A service that others find, call and measure, and a requester that checks for its errors."""

import os

import natsync
from natsync.micro import Request, ServiceClient, ServiceError, raise_for_error

URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")


def divide(request: Request) -> None:
    a, b = map(int, request.data.split())
    if b == 0:
        raise ServiceError(422, "division by zero")
    request.respond(b"%d" % (a // b))


with natsync.connect(URL, name="sample") as nc:
    with natsync.micro.add_service(
        nc, "math", "1.0.0", description="integer arithmetic"
    ) as service:
        service.add_group("math").add_endpoint("divide", divide, workers=4)

        print(raise_for_error(nc.request("math.divide", b"84 2", timeout=2)).data.decode())
        try:
            raise_for_error(nc.request("math.divide", b"1 0", timeout=2))
        except ServiceError as error:
            print(error.code, error.description)

        (info,) = ServiceClient(nc).info("math", service.id)
        print(info.name, info.version, [endpoint.subject for endpoint in info.endpoints])
        (stats,) = ServiceClient(nc).stats("math", service.id)
        for endpoint in stats.endpoints:
            print(
                endpoint.num_requests,
                "requests,",
                endpoint.num_errors,
                "error:",
                endpoint.last_error,
            )
