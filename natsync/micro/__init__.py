"""Services on NATS: request handlers that can be discovered, described and measured (ADR-32).

>>> service = natsync.micro.add_service(nc, "math", "1.0.0")
>>> service.add_endpoint("double", lambda request: request.respond(request.data * 2))
>>> nc.request("double", b"ab").data
b'abab'
>>> natsync.micro.ServiceClient(nc).ping()
[ServicePing(name='math', id='...', version='1.0.0', ...)]
"""

from ..errors import InvalidResponseError
from .client import ServiceClient
from .endpoint import Endpoint, RequestHandler
from .errors import ServiceError, ServiceStoppedError
from .request import (
    ERROR_CODE_HEADER,
    ERROR_HEADER,
    Request,
    error_headers,
    raise_for_error,
)
from .responses import EndpointInfo, EndpointStats, ServiceInfo, ServicePing, ServiceStats
from .service import Group, Service, add_service

__all__ = [
    "ERROR_CODE_HEADER",
    "ERROR_HEADER",
    "Endpoint",
    "EndpointInfo",
    "EndpointStats",
    "Group",
    "InvalidResponseError",
    "Request",
    "RequestHandler",
    "Service",
    "ServiceClient",
    "ServiceError",
    "ServiceInfo",
    "ServicePing",
    "ServiceStats",
    "ServiceStoppedError",
    "add_service",
    "error_headers",
    "raise_for_error",
]
