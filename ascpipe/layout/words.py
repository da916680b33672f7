"""Constants for states in shared memory, for example of frames, entries and requests.

The module contains only constants and imports no modules, so every layer may use it. ``docs/internals/protocol.md``
describes each state and the processes that may change it. ``ascpipe/layout/structs.py`` has the fields.
"""

# Word of a frame for a table. Each transition has one writer. Trainer and table worker change PLANNED by CAS,
# because they compete.
SUBMITTED = 0  # pump
DEDUPED = 1  # key worker; table worker if a cut discards entry numbers
TOUCHED = 2  # table worker, by CAS from PLANNED if a plan is revoked
PLANNED = 3  # table worker
CLAIMED = 4  # trainer by CAS
DONE = 5  # trainer; table worker for a count-only ticket
RETIRED = 6  # table worker
ASKED = 8  # trainer by CAS, only in an evaluation; requests the slots of keys
ANSWERED = 9  # table worker, evaluation only
WORD_NAMES = {
    SUBMITTED: "SUBMITTED", DEDUPED: "DEDUPED", TOUCHED: "TOUCHED", PLANNED: "PLANNED", CLAIMED: "CLAIMED",
    DONE: "DONE", RETIRED: "RETIRED", ASKED: "ASKED", ANSWERED: "ANSWERED",
}

# Channels of a stream.
TRAIN = 0
EVAL = 1
LOCAL = 2  # ids of one rank's batches for training or evaluation; only key workers serve this channel
CHANNELS = 3

# States of an entry. FREE: no key. NAMED: a key without trained state, which only frames of the window hold.
# TRAINED: a key with trained state.
FREE = 0
NAMED = 1
TRAINED = 2

# Location of a row at home or on disk: a home row (0 or more), HOME_NONE, or a disk slot.
HOME_NONE = -1
HOME_DISK = -2  # disk slot s is HOME_DISK - s

# Words of a request to the disk worker. The table worker stores ASKED, and EMPTY at the end. The disk worker
# stores TAKEN, then DONE or FAILED. A READ copies a row from its disk slot to its home row. A WRITE copies a
# row in the other direction.
REQUEST_EMPTY, REQUEST_ASKED, REQUEST_TAKEN, REQUEST_DONE, REQUEST_FAILED = range(5)
REQUEST_READ = 1
REQUEST_WRITE = 2

# Status of a record. All values except PLAN_OK are errors of the step that needs the plan.
PLAN_OK = 0
PLAN_TABLE_FULL = 1  # a table without home rows has more keys than device rows
PLAN_DEVICE_SMALL = 2  # the device has fewer rows than this batch needs
PLAN_HOST_FULL = 3  # there are more keys than home rows
PLAN_NO_MEMORY = 4  # no memory is left for entries or home rows
PLAN_HOST_SMALL = 5  # a table with rows on disk has fewer home rows than one batch needs

# Kinds of cuts.
CUT_RESET = 1  # drop all keys
CUT_THRESHOLD = 2  # change the access threshold, or stop counting
CUT_EVICT = 3  # drop keys that were not used for a while
CUT_LOAD = 4  # replace the table by the table of a checkpoint, which the trainer writes in place

# Values of a slot field: a slot (0 or more), no row, or a code.
SLOT_NONE = -1
SLOT_HOME = -2  # home row h is SLOT_HOME - h; evaluation only
SLOT_DISK = -2**31  # row on disk; ``homes`` has the slot, ``frequencies`` has the generation; evaluation only
SLOT_FROZEN = 1 << 30  # added to the slot of a padding key, whose row is never updated; trainer only

# Reasons to wait. `ascpipe status` shows their texts, and errors contain the texts after "waiting for".
WAIT_NONE, WAIT_BATCH, WAIT_ROOM, WAIT_PLAN, WAIT_STEP, WAIT_LEASE, WAIT_READ, WAIT_CUT, WAIT_SAVE, \
    WAIT_RANKS, WAIT_KEYS, WAIT_DISK = range(12)
WAIT_SENTENCES = {
    WAIT_NONE: "nothing",
    WAIT_BATCH: "the next batch",
    WAIT_ROOM: "room in the ring",
    WAIT_PLAN: "the table worker to plan it",
    WAIT_STEP: "an earlier batch to be trained or dropped",
    WAIT_LEASE: "another step to end",
    WAIT_READ: "the table worker to answer an evaluation",
    WAIT_CUT: "the table worker to apply a change",
    WAIT_SAVE: "space in the log of a save",
    WAIT_RANKS: "the other ranks",
    WAIT_KEYS: "the key worker to deduplicate its keys",
    WAIT_DISK: "the disk worker to read rows",
}

#: names of exchanges among ranks, by PeerKind of tfops/src/peers/header.h
EXCHANGE_KINDS = {
    1: "gate", 2: "forward", 3: "backward", 4: "read", 5: "ask", 6: "idle", 7: "leave", 8: "broken", 9: "busy"}

#: activity of a rank in an exchange, by PeerKind of tfops/src/peers/header.h; its NameOf has the same texts
EXCHANGE_SENTENCES = {
    1: "takes", 2: "trains", 3: "sends gradients of", 4: "evaluates", 5: "saves, restores or changes its tables",
    6: "is idle", 7: "has ended", 8: "has given up", 9: "is busy"}
