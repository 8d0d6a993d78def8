"""The columns of the arrays in which the kernel keeps state. A column is a constant, so that compiled code
and Python index the same way.

A *slot* is a connection, and has two *ways* (directions), numbers `2 * slot` and `2 * slot + 1`. A *place* is
a packet: the number of its run in the upper bits, its index in the run in the lower `PLACE_BITS`.
"""

from __future__ import annotations

from enum import IntEnum, auto

PLACE_BITS = 32
NO_PLACE = -1  # no packet since the hand-over
STORED = -2  # the run is gone, and what is needed of the packet is stored elsewhere

KEY_WORDS = 5
LINE_BYTES = 4096
"""The most bytes of a control line and its headers that the kernel keeps from packet to packet."""


PACKET_FRAMES = 1 << 14  # a packet of 64 KiB has fewer
PACKET_TEXT = 1 << 17  # of one packet, with a line from before


class Op(IntEnum):
    """The operations that the kernel reads; others are a reason to stop."""

    PUB = 0
    HPUB = auto()
    MSG = auto()
    HMSG = auto()
    RMSG = auto()
    RHMSG = auto()
    LMSG = auto()
    OK = auto()
    PING = auto()
    PONG = auto()
    SUB = auto()
    UNSUB = auto()


class Worth(IntEnum):
    """What a frame is worth."""

    COUNTED = 0  # only sums depend on it
    PAIRED = auto()  # the same, but for the request that it is, or may answer
    PASSED = auto()  # Python adds it; the two before it only go to layers
    SETTLES = auto()  # the same, after the sums of the subscriptions of its connection
    IGNORED = auto()


class Reads(IntEnum):
    """Which messages layers read."""

    NONE = 0
    MARKED = auto()  # see `schema.declaration.ApplicationLayer`
    ALL = auto()


OPS = len(Op)
LAST_MESSAGE = int(Op.LMSG)


class Stop(IntEnum):
    """Why the kernel stops."""

    DONE = 0  # the run is over
    BREAK = (
        auto()
    )  # the next packet, of the way in `ARG`, is not plain: Python takes its connection back
    ALONE = (
        auto()
    )  # Python has to read the packet that was listed last before anything else happens
    FULL = auto()  # what was noted has to be settled first


# Columns of the control array.
(
    C_NEXT,  # index of the next packet in the run
    C_RUN,  # the place of the first packet of the run
    C_IP_AT,  # where the IP header begins in packets of this link type
    C_TYPE_AT,  # where the EtherType is; -1: there is none
    C_EXPIRY,  # no flow expires before
    C_LEAST,  # the shortest time after which a new deadline may pass
    C_LISTED,  # how many packets are listed for Python
    C_MOST,  # how many packets may be listed
    C_FIRST_NS,  # the smallest time among them
    C_EVENTS,  # how many frames are passed on
    C_TEXT,  # how many bytes of their text
    C_ARG,  # the way whose packet is read
    C_OWNED,  # how many connections the kernel follows
    C_CLOCK,  # the time of the last packet that was kept
    C_CLOCK_AT,  # its index; -1: none was
    C_EPOCH,  # the last number that was given to the subscriptions of a way
    C_SESSIONS,  # whether there are sessions: if not, no frame is of interest
    C_PAIRS,  # whether requests are paired
    C_CARRIED,  # whether messages between servers are counted for interest
    C_SEED,
    C_KEPT,  # how many packets were kept, in total
    C_ASKED,  # how many bits of the filter were set
    C_STEP,  # a clock that was set back further is a reason to stop
    C_BEFORE,  # how many packets were read before the run
    C_FIRST,  # the number of its first packet
    C_CAPTURE,  # the code of its capture
    C_ROWS,  # how many rows of frames there are
    C_FIELDS,  # and how many fields of their headers
    C_REPLIES,  # whether Python needs the payload of a reply that reports an error
    C_LAYERS,  # which messages layers read, with their payloads
    C_CHANGED,  # whether one was passed on after which layers may read every message
    C_WIDTH,
) = range(32)

# Columns of a way.
(
    W_SEQ,  # next sequence number; -1: no packet is expected
    W_OFFSET,  # position in the stream
    W_PACKETS,
    W_BYTES,
    W_FULL,  # segments that filled the window of the other side
    W_HAS_ACK,  # whether the next two are known: of the last packet of this way
    W_ACK,
    W_WINDOW,
    W_UNIT,  # of the window of the other side
    W_LAST,  # the place of the last packet
    W_DATA,  # the place of the last packet with payload
    W_TIME,  # the latest time
    W_FRAMES,
    W_BASE,  # the stream position of the frame in progress
    W_FIRST,  # the place of the packet in which it begins
    W_SIZE,  # how many bytes of it are kept: its line, then its headers
    W_LINE,  # the size of its line, 0 while that is not complete
    W_LEFT,  # how many bytes of its body are yet to come, line end included
    W_GRAMMAR,
    W_READS,  # the operations that may be read, as bits
    W_COUNTS,  # those that may be counted here, because Python has counted one before
    W_LARGEST,  # the largest message that may be published
    W_SUBS,  # the epoch of the subscriptions to which messages are delivered
    W_ASKER,  # the epoch of requests whose replies come in this way; negative: there were none yet
    W_SUM,  # bytes of messages
    W_CHECKS,  # whether a wrong checksum means that the packet was damaged
    W_LABEL,  # the code of the labels of its rows; -1: no rows are made
    W_PACKET,  # the number of the packet in which the frame in progress begins
    W_CAPTURE,  # and the code of its capture
    W_OPS,  # number of frames, by operation
) = range(30)
W_WIDTH = W_OPS + OPS

# Columns of a slot.
S_LAST_NS, S_KEPT, S_NUMBER, S_WIDTH = range(4)

# Columns of a subscription.
U_EPOCH, U_SID, U_COUNT, U_BYTES, U_LEFT, U_WIDTH = range(6)

# Columns of a listed packet: just its index.

# Columns of a frame that is passed on.
(
    E_INDEX,  # of the packet that completes it
    E_WAY,
    E_OP,
    E_TIME,
    E_CHUNK,  # stream position of the packet's payload
    E_BASE,  # stream position of the frame
    E_FIRST,  # the place of the packet in which it begins
    E_TEXT,  # where its text begins
    E_LINE,  # the size of its line
    E_HEADERS,  # and of its headers
    E_SIZE,  # and of its body, line end excluded
    E_REPLY,  # where its reply subject begins in its text
    E_REPLY_END,
    E_WORTH,
    E_NUMBER,  # in its session
    E_WIDTH,
) = range(16)

# Columns of the row of a frame.
(
    R_ORDINAL,  # of the packet that completes it, among all packets
    R_LABEL,
    R_NUMBER,  # in its session
    R_TIME,
    R_PACKET,  # the number of the packet in which it begins
    R_CAPTURE,
    R_OP,
    R_HEADERS,
    R_SIZE,
    R_TOTAL,
    R_OFFSET,
    R_FIELDS,  # how many fields its headers have; -1: Python reads the headers, which are in `T_BLOCK`
    R_WIDTH,
) = range(13)

# Texts of the rows, then of the fields of their headers.
T_SUBJECT, T_REPLY, T_SID, T_ACCOUNT, T_ORIGIN, T_QUEUES, T_BLOCK, T_NAME, T_VALUE, TEXTS = range(
    10
)

# Columns of the frame that is being read.
(
    L_OP,
    L_SUBJECT,
    L_SUBJECT_END,
    L_REPLY,
    L_REPLY_END,
    L_SID,
    L_SID_END,
    L_SIZE,
    L_HEADERS,
    L_QUEUES,  # the queues, with blanks between them
    L_QUEUES_END,
    L_COUNT,  # number of arguments
    L_ARGS,  # their beginnings and ends
) = range(13)
MOST_ARGS = 24
L_WIDTH = L_ARGS + 2 * MOST_ARGS

# Columns of the work of one packet, and of a frame in it.
(
    K_SIZE,
    K_LINE,
    K_LEFT,
    K_FIRST,
    K_BASE,
    K_STAGED,
    K_EVENTS,
    K_TEXT,
    K_ROW,
    K_COUNTS,
    K_SUBS,
    K_ASKER,
    K_PASSES,
    K_TIME,
    K_NUMBER,  # of the last frame in its session
    K_LABEL,
    K_PACKET,
    K_CAPTURE,
    K_ROWS,
    K_FIELDS,
    K_CHANGED,
    K_NOTED,  # whether a frame was noted that Python does not add
    K_TOGETHER,  # whether Python adds all frames that are noted
    K_AGAIN,  # whether it has to
    K_WIDTH,
) = range(25)

# Columns of a frame that is staged.
F_OP, F_SIZE, F_SUB, F_WORTH, F_WIDTH = range(5)
