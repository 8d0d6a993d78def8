"""`natsync consumer`: lists, shows, creates, reads, changes, copies, pauses, deletes JetStream consumers."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from click import BadParameter

from .._json import format_time
from ..jetstream import ConsumerConfig
from ..jetstream.names import check_consumer_name
from .command import Group, Run
from .config_options import config_options, read_config
from .options import JETSTREAM, Function, argument, count_option, force_option, option
from .output import Shown, show
from .stream import names_option, preferred_option, show_object, stream_argument
from .values import checked, duration, time

__all__ = ["consumer"]

_consumer_argument = argument("consumer", type=checked(check_consumer_name))

consumer = Group("consumer", shared=JETSTREAM)


def until(text: str) -> datetime:
    """The time at which a pause ends."""
    try:
        return datetime.now(timezone.utc) + timedelta(seconds=duration(text))
    except (BadParameter, OverflowError):
        return time(text)


def _of_a_consumer(function: Function) -> Function:
    return stream_argument(_consumer_argument(function))


@consumer.command("ls")
@stream_argument
@names_option
def ls(run: Run, stream: str, names: bool) -> None:
    """List the consumers of a stream."""
    found = run.js.stream(stream)
    if names:
        return run.names(found.consumer_names())
    run.table(
        ("NAME", "PENDING", "ACK PENDING", "REDELIVERED", "FILTER"),
        found.consumers(),
        lambda info: (info.name, info.num_pending, info.num_ack_pending, info.num_redelivered)
        + (info.config.filter_subject or ", ".join(info.config.filter_subjects),),
        lambda info: info.to_json(complete=True),
    )


@consumer.command("info")
@_of_a_consumer
def info(run: Run, stream: str, consumer: str) -> None:
    """Show the configuration and state of a consumer."""
    show_object(run, run.js.consumer(stream, consumer).cached_info)


@consumer.command("add")
@_of_a_consumer
@config_options(ConsumerConfig)
def add(run: Run, stream: str, consumer: str, **options: object) -> None:
    """Create a durable consumer."""
    config = read_config(options, ConsumerConfig(durable_name=consumer))
    show_object(run, run.js.stream(stream).create_consumer(config).cached_info)


@consumer.command("next", raw=True)
@_of_a_consumer
@count_option("Print N messages (1).", 1)
@option("--no-ack", "Acknowledge none: they are delivered again.")
def take_next(run: Run, stream: str, consumer: str, count: int, no_ack: bool) -> None:
    """Print the next messages of a consumer and acknowledge each after it is printed."""
    found = run.js.consumer(stream, consumer)
    acknowledges = not no_ack and found.cached_info.config.ack_policy != "none"
    for _ in range(count):
        msg = found.next(run.timeout)
        place = msg.metadata
        more: dict[str, Shown] = {
            "stream": place.stream,
            "seq": place.stream_seq,
            "time": format_time(place.timestamp),
            "consumer": place.consumer,
            "deliveries": place.num_delivered,
            "pending": place.num_pending,
        }
        show(msg, run.form, more=more)
        if acknowledges:
            msg.ack_sync(run.timeout)


@consumer.command("edit")
@_of_a_consumer
@config_options(ConsumerConfig)
def edit(run: Run, stream: str, consumer: str, **options: object) -> None:
    """Change a consumer; settings without an option stay as they are."""
    found = run.js.stream(stream)
    config = read_config(options, found.consumer(consumer).cached_info.config)
    show_object(run, found.update_consumer(config).cached_info)


@consumer.command("copy")
@_of_a_consumer
@argument("new", "The name of the copy.", checked(check_consumer_name))
@config_options(ConsumerConfig)
def copy(run: Run, stream: str, consumer: str, new: str, **options: object) -> None:
    """Create a consumer with the configuration of another one."""
    found = run.js.stream(stream)
    config = found.consumer(consumer).cached_info.config
    named = replace(config, name=new, durable_name=new if config.durable_name else "")
    show_object(run, found.create_consumer(read_config(options, named)).cached_info)


@consumer.command("rm")
@_of_a_consumer
@force_option("deleting a consumer")
def rm(run: Run, stream: str, consumer: str) -> None:
    """Delete a consumer."""
    run.js.stream(stream).delete_consumer(consumer)
    run.done(stream=stream, deleted=consumer)


@consumer.command("pause")
@_of_a_consumer
@argument("until", "A time, or a duration: 90s, 1h30m.", until)
def pause(run: Run, stream: str, consumer: str, until: datetime) -> None:
    """Stop the deliveries of a consumer for a time."""
    show_object(run, run.js.stream(stream).pause_consumer(consumer, until), zeros=False)


@consumer.command("resume")
@_of_a_consumer
def resume(run: Run, stream: str, consumer: str) -> None:
    """End the pause of a consumer."""
    state = run.js.stream(stream).resume_consumer(consumer)
    if run.json:
        show_object(run, state)


@consumer.command("step-down")
@_of_a_consumer
@preferred_option
def step_down(run: Run, stream: str, consumer: str, preferred: str) -> None:
    """Make the leader of a consumer hand over."""
    run.js.stream(stream).step_down_consumer(consumer, preferred)
    run.done(stream=stream, consumer=consumer)
