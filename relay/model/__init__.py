"""The values and Protocols that the wings share.

Invariant: everything here is a plain value or a Protocol; nothing here does I/O and nothing here knows a
wing. A wing that needs another one takes the Protocol, and the composition root (`relay.app.daemon.daemon`) fills
it in.
"""

from __future__ import annotations

from relay.model.guards import (
    LOCKED,
    STALE,
    WHICH,
    ChangedFiles,
    Guard,
    GuardDecision,
    HeldPath,
    LockRefusal,
    Unguarded,
)
from relay.model.inbox import Channel, Hears, Inbox, SteeringMessage
from relay.model.messages import Kind, Message
from relay.model.names import (
    ADMIN,
    DISPATCHER,
    MAX_CLIENT_ID,
    RESERVED_NAMES,
    SCOPES,
    STEWARD,
    TASK_STATUSES,
    Program,
)
from relay.model.pages import Json
from relay.model.ports import (
    AgentConfig,
    Airspace,
    Board,
    BoardChange,
    BoardTask,
    Handoffs,
    HeldPaths,
    Holds,
    Orders,
    Remembered,
    Spoken,
    Timeline,
    TurnsAtWork,
    Voice,
)
from relay.model.refusals import CUT_OFF, SESSION_ID, Caller, Fault, Refusal
from relay.model.turns import (
    TAKE_MAIN,
    AccountLimit,
    Agent,
    Availability,
    BriefPart,
    Changes,
    DebriefPart,
    DeliveredPart,
    EndPart,
    FailureClass,
    Location,
    LogPart,
    Nobody,
    Part,
    PermissionAnswer,
    PermissionOption,
    PermissionRequest,
    Permits,
    SessionPart,
    TextPart,
    ToolPart,
    Turn,
    TurnLimits,
    UsagePart,
    Workplace,
)
