"""Numbers the states that processes agree on: of a frame for a table (its word), an entry, a record, a wait.

Constants only, no imports: every layer may use them.  ``docs/internals/protocol.md`` has what each state means and
which process may change it; ``ascpipe/layout/structs.py`` has the fields that hold them.
"""

# Word per (frame, table).  One writer per transition; the trainer and the table worker both use CAS to
# leave PLANNED.
SUBMITTED = 0  # pump -> key worker
DEDUPED = 1  # key worker; also the table worker, when a cut gives up entry numbers
TOUCHED = 2  # table worker; also by CAS from PLANNED: revoked
PLANNED = 3  # table worker
CLAIMED = 4  # trainer by CAS
DONE = 5  # trainer; table worker for a count-only ticket
RETIRED = 6  # table worker
ASKED = 8  # trainer by CAS, evaluation only: resolve these keys
ANSWERED = 9  # table worker, evaluation only
WORD_NAMES = {
    SUBMITTED: "SUBMITTED", DEDUPED: "DEDUPED", TOUCHED: "TOUCHED", PLANNED: "PLANNED", CLAIMED: "CLAIMED",
    DONE: "DONE", RETIRED: "RETIRED", ASKED: "ASKED", ANSWERED: "ANSWERED",
}

# Channels of a stream.
TRAIN = 0
EVAL = 1
LOCAL = 2  # the ids of one rank's batches, of either: only key workers serve it
CHANNELS = 3

# States of an entry: no key; a key without trained state, held by frames of the window only; a key with
# trained state.
FREE = 0
NAMED = 1
TRAINED = 2

# Where the row of an entry is, if it is at home or on disk: a home row (0 or more), neither, or a disk slot.
HOME_NONE = -1
HOME_DISK = -2  # disk slot s is HOME_DISK - s (and all below)

# Words of a request to the disk worker: table worker EMPTY to ASKED, disk worker ASKED to TAKEN and to DONE or FAILED,
# table worker to EMPTY.  Kinds: a row is to be read from its disk slot into its home row, or written.
REQUEST_EMPTY, REQUEST_ASKED, REQUEST_TAKEN, REQUEST_DONE, REQUEST_FAILED = range(5)
REQUEST_READ = 1
REQUEST_WRITE = 2

# Status of a record; everything but PLAN_OK is an error of the step that wants the plan.
PLAN_OK = 0
PLAN_TABLE_FULL = 1  # a table without home rows has more keys than device rows
PLAN_DEVICE_SMALL = 2  # the device holds fewer rows than this one batch needs
PLAN_HOST_FULL = 3  # more keys than home rows
PLAN_NO_MEMORY = 4  # the machine has none left for entries or home rows
PLAN_HOST_SMALL = 5  # a table with rows on disk has fewer home rows than one batch needs

# Kinds of cuts.
CUT_RESET = 1  # forget every key
CUT_THRESHOLD = 2  # another access threshold, or counting stops
CUT_EVICT = 3  # drop the keys that were not used for a while
CUT_LOAD = 4  # the table becomes that of a checkpoint, which the trainer writes where it will stand

# Values of a slot field: a slot (0 or more), no row, or the code of a home row (and all below).
SLOT_NONE = -1
SLOT_HOME = -2  # home row h is SLOT_HOME - h; evaluation only
SLOT_DISK = -2**31  # the row is on disk: ``homes`` has its disk slot, ``frequencies`` its generation; evaluation only
SLOT_FROZEN = 1 << 30  # added to a slot: the row is looked up and never updated (a padding key); trainer only

# What a thread waits for: in `ascpipe status`, and in errors after "waiting for".
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
    WAIT_SAVE: "room in the log of a save",
    WAIT_RANKS: "the other ranks",
    WAIT_KEYS: "the key worker to deduplicate its keys",
    WAIT_DISK: "the disk worker to read rows",
}

#: names of exchanges among ranks, by PeerKind of tfops/src/peers/header.h
EXCHANGE_KINDS = {
    1: "gate", 2: "forward", 3: "backward", 4: "read", 5: "ask", 6: "idle", 7: "leave", 8: "broken", 9: "busy"}

#: what a rank does in an exchange with others, by PeerKind of tfops/src/peers/header.h, whose NameOf has the same texts
EXCHANGE_SENTENCES = {
    1: "takes", 2: "trains", 3: "sends gradients of", 4: "evaluates", 5: "saves, restores or changes its tables",
    6: "is idle", 7: "has ended", 8: "has given up", 9: "is busy"}
