"""Which actions lift a guard, are quoted later, or write outside of the database."""

from __future__ import annotations

from relay.model import actions

#: Actions that lift a guard, whatever their arguments: an entry that proves nobody may not order them.
GUARDED = (
    actions.Route
    | actions.Retry
    | actions.RetryAll
    | actions.Resume
    | actions.TryNow
    | actions.Continue
    | actions.GoFirst
    | actions.ForceRelease
    | actions.HandOn
    | actions.AnswerHandoff
    | actions.RunPipeline
    | actions.Rewind
    | actions.UndoRewind
    | actions.RedoRewind
    | actions.Remember
    | actions.Decide
    | actions.Forget
    | actions.Resolve
    | actions.Explore
    | actions.TakeVariant
    | actions.EndExploration
    | actions.Land
    | actions.TakeFromQueue
    | actions.Verify
    | actions.Approve
    | actions.Reject
    | actions.RaiseBudget
    | actions.SetAgent
    | actions.MarkAdvisory
    | actions.PutOff
    | actions.MarkReviewed
    | actions.ApplySuggestion
    | actions.RunApp
    | actions.StopApp
    | actions.SetUp
    | actions.OnBranch
    | actions.Give
    | actions.EditTasks
    | actions.MoveTask
    | actions.MoveTasks
    | actions.MoveAll
    | actions.ClearAll
    | actions.Archive
    | actions.Undo
    | actions.EditMessage
    | actions.DeleteMessage
    | actions.Pin
    | actions.Unpin
)
#: Of these: what is told to agents later as the word of whoever ordered it.
QUOTED = actions.Remember | actions.Decide | actions.Forget
#: Actions that write files, wait for git, or look long: done before the transaction of their answer, and once.
OUTSIDE = (
    actions.Rewind
    | actions.UndoRewind
    | actions.RedoRewind
    | actions.MakeCheckpoint
    | actions.Resolve
    | actions.RaiseBudget
    | actions.SetAgent
    | actions.MarkAdvisory
    | actions.ShowSince
    | actions.ShowReview
    | actions.MarkReviewed
    | actions.ApplySuggestion
    | actions.RunApp
    | actions.StopApp
    | actions.SetUp
    | actions.OnBranch
    | actions.ShowOutput
)
#: Of these: what concerns the one who asks, and no agent.
OWN = actions.ShowReview | actions.MarkReviewed | actions.ShowSince | actions.ShowOutput
