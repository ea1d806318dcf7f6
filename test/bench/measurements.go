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

// orderForRound returns the order of the programs in a round, counted from 0; it alternates.
func orderForRound(programs [2]program, round int) []program {
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

// failure is a run that failed: it has no sample.
type failure struct {
	Figure  string `json:"figure"`
	Program string `json:"program"`
	Round   int    `json:"round"`
	Error   string `json:"error"`
}

// measurements holds everything that was measured.
type measurements struct {
	samples  map[string]map[string][]float64 // by figure and program, in the figure's unit
	failures []failure
	turns    []turn
}

// beginTurn records a program's turn.
func (l *measurements) beginTurn(round int, p program) (turn, error) {
	t := turn{Round: round, Program: p.name}
	var err error
	if t.Load, err = readLoad(); err != nil {
		return t, err
	}
	l.turns = append(l.turns, t)
	return t, nil
}

// rounds is the number of rounds so far.
func (l *measurements) rounds() int {
	last := 0
	for _, t := range l.turns {
		last = max(last, t.Round)
	}
	return last
}

func (l *measurements) addSample(id, program string, value float64) {
	if l.samples == nil {
		l.samples = map[string]map[string][]float64{}
	}
	if l.samples[id] == nil {
		l.samples[id] = map[string][]float64{}
	}
	l.samples[id][program] = append(l.samples[id][program], value)
}

// addRun records a run of a group's command, which failed if err is not nil.
func (l *measurements) addRun(t turn, group string, r nodes.Result, err error) {
	if err != nil {
		l.addFailure(t, group, err)
		return
	}
	l.addSample(group, t.Program, r.Duration.Seconds())
	l.addSample(group+memorySuffix, t.Program, float64(r.Memory)/1e6)
}

func (l *measurements) addFailure(t turn, id string, err error) {
	l.failures = append(l.failures,
		failure{Figure: id, Program: t.Program, Round: t.Round, Error: err.Error()})
}

// countFailures counts the failed runs of a program.
func (l *measurements) countFailures(id, program string) int {
	count := 0
	for _, f := range l.failures {
		if f.Figure == id && f.Program == program {
			count++
		}
	}
	return count
}
