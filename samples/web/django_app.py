"""A Django application in one file that asks a NATS service.

    pip install natsync django gunicorn
    gunicorn --workers 2 --threads 4 --preload django_app:app

In a project of your own the client belongs into a module that is imported once, such as `nats.py` beside
`settings.py`; views import it from there.
"""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

import natsync

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY=os.urandom(32).hex())
nc = natsync.connect(
    os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), name="django", retry_on_failed_connect=True
)


def price(request: HttpRequest, item: str) -> HttpResponse:
    try:
        return HttpResponse(nc.request(f"price.{item}", timeout=2).data)
    except natsync.ProtocolError:
        return HttpResponse("no such item", status=404)  # `a b` or `>`: they are not subjects
    except natsync.NoRespondersError:
        return HttpResponse("the price service is down", status=503)
    except natsync.RequestTimeoutError:
        return HttpResponse("the price service is slow", status=504)
    except natsync.ConnectionReconnectingError as error:
        return HttpResponse(f"no connection to NATS: {error}", status=503)


urlpatterns = [path("price/<item>", price)]
app = get_wsgi_application()
