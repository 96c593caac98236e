// SPDX-License-Identifier: Apache-2.0

package fleet

// View is how a roll-out stands, for people and programs.
type View struct {
	Phase    Phase     `json:"phase"`
	Target   string    `json:"target"`
	Rev      int64     `json:"rev"` // of the document that is published
	Reason   string    `json:"reason,omitempty"`
	Away     bool      `json:"broker_away,omitempty"` // there is no connection: it is tried again, and what is counted was heard before
	Members  int       `json:"members"`               // devices that are known to belong to the target
	Stages   []Stage   `json:"stages"`
	Failures []Failure `json:"failures"`           // of the stage that runs, or that was taken back
	NotBack  []Failure `json:"not_back,omitempty"` // of devices that do not go back
}

// Stage is one line of it.
type Stage struct {
	Percent float64 `json:"percent"`
	Rev     int64   `json:"rev,omitempty"`  // 0: not published yet
	Back    bool    `json:"back,omitempty"` // the way back to the document before
	Ended   bool    `json:"ended"`
	Count
}

// ViewOf counts what devices make of a state, stage by stage. Of stages that have ended
// it has what they had come to then, of those to come how many devices are due.
func ViewOf(s State, devices []Device) View {
	v := View{Phase: s.Phase, Target: s.Wanted.Target.String(), Rev: s.Rev, Reason: s.Reason, Members: s.members(devices)}
	back := s.Phase == Aborting || s.Phase == Aborted
	for i, p := range s.Stages {
		line := Stage{Percent: p, Ended: i < len(s.Ended)}
		switch {
		case line.Ended:
			line.Count = s.Ended[i]
		case back:
			continue // nobody will come to it
		case i == s.Stage:
			line.Count = s.Count(devices, p)
		default:
			line.Due = s.Count(devices, p).Due
		}
		if i <= s.Stage {
			line.Rev = s.First + int64(i)
		}
		v.Stages = append(v.Stages, line)
	}
	if v.Failures = s.Failures(devices); back {
		v.Failures, v.NotBack = s.Failed, v.Failures
		v.Stages = append(v.Stages, Stage{Percent: s.Percent(), Rev: s.Rev, Back: true, Ended: s.Phase == Aborted, Count: s.Count(devices, s.Percent())})
	}
	return v
}
