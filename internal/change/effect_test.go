package change

import (
	"errors"
	"testing"
)

func TestEffectOf(t *testing.T) {
	for _, c := range []struct {
		change      Change
		missing, is Effect // if the target does not exist, and if it does
	}{
		{WriteFile{}, Created, Changed},
		{WriteKeyPair{}, Created, Changed},
		{MakeDir{}, Created, Changed},
		{MakeLink{}, Created, Changed},
		{SaveSnapshot{}, Created, Changed},
		{ApplyObject{}, Created, Changed},
		{MutateObject{}, Created, Changed},
		{PullImage{}, Created, Created},
		{SetMember{State: Learner}, Created, Created},
		{SetMember{State: Voter}, Changed, Changed},
		{SetMember{State: Absent}, Removed, Removed},
		{SetAccounts{}, Changed, Changed},
		{SetAccounts{Absent: true}, Removed, Removed},
		{SetService{}, Changed, Changed},
		{SetOwner{}, Changed, Changed},
		{LabelAndTaintNode{}, Changed, Changed},
		{Remove{}, Removed, Removed},
		{Remove{Contents: true}, Emptied, Emptied},
		{DeleteObject{}, Removed, Removed},
		{EvictPod{}, Removed, Removed},
		{Unmount{}, Removed, Removed},
		{RemoveContainers{}, Removed, Removed},
		{RemoveImage{}, Removed, Removed},
		{RemoveInterface{}, Removed, Removed},
		{RemovePacketRules{}, Removed, Removed},
		{RemoveVirtualServers{}, Removed, Removed},
		{RemoveControlGroup{}, Removed, Removed},
	} {
		if missing, is := EffectOf(c.change, false), EffectOf(c.change, true); missing != c.missing ||
			is != c.is {
			t.Errorf("%T: %s and %s, want %s and %s", c.change, missing, is, c.missing, c.is)
		}
	}
}

func TestLookupNotesOnlyWhatDoesNotExist(t *testing.T) {
	var l Lookup
	if l.note(nil); l.Missed() {
		t.Error("a read without error is missed")
	}
	if l.note(errors.New("permission denied")); l.Missed() {
		t.Error("a failed read is missed")
	}
}
