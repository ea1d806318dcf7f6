package main

import (
	"slices"

	"kubeadm/test/nodes"
)

// program is one of the two that are compared.
type program struct {
	name string // ours or upstream
	path string
}

const (
	ours     = "ours"
	upstream = "upstream"
)

// alternate returns the programs in the order in which a round, counted from 0, takes them: who was last is first.
func alternate(programs [2]program, round int) []program {
	if round%2 == 1 {
		slices.Reverse(programs[:])
	}
	return programs[:]
}

// turn is a program's turn in a round.
type turn struct {
	Round   int     `json:"round"` // from 1
	Program string  `json:"program"`
	Load    float64 `json:"load"` // of the last minute, when the turn began
}

// failure is a run that did not end well: there is no sample of it.
type failure struct {
	Figure  string `json:"figure"`
	Program string `json:"program"`
	Round   int    `json:"round"`
	Error   string `json:"error"`
}

// ledger holds all that was measured.
type ledger struct {
	samples  map[string]map[string][]float64 // by figure and program, in the figure's unit
	failures []failure
	turns    []turn
}

// begin enters a program's turn.
func (l *ledger) begin(round int, p program) (turn, error) {
	t := turn{Round: round, Program: p.name}
	var err error
	if t.Load, err = load(); err != nil {
		return t, err
	}
	l.turns = append(l.turns, t)
	return t, nil
}

func (l *ledger) add(id, program string, value float64) {
	if l.samples == nil {
		l.samples = map[string]map[string][]float64{}
	}
	if l.samples[id] == nil {
		l.samples[id] = map[string][]float64{}
	}
	l.samples[id][program] = append(l.samples[id][program], value)
}

// take enters a run of a group's command, which failed if err is not nil.
func (l *ledger) take(t turn, group string, r nodes.Result, err error) {
	if err != nil {
		l.fail(t, group, err)
		return
	}
	l.add(group, t.Program, r.Duration.Seconds())
	l.add(group+peak, t.Program, float64(r.Memory)/1e6)
}

func (l *ledger) fail(t turn, id string, err error) {
	l.failures = append(l.failures, failure{Figure: id, Program: t.Program, Round: t.Round, Error: err.Error()})
}

// failed counts the runs of a program that did not end well.
func (l *ledger) failed(id, program string) int {
	count := 0
	for _, f := range l.failures {
		if f.Figure == id && f.Program == program {
			count++
		}
	}
	return count
}
