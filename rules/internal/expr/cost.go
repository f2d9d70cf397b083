package expr

import (
	"encoding/binary"
	"maps"
	"math"
	"regexp/syntax"
	"slices"
	"time"
	"unicode"

	"crowsnest/internal/literals"
)

// MaxLine is the length of the longest line that expressions are matched with, in
// bytes. Longer lines are truncated.
const MaxLine = 16 << 10

// Constants of the estimate.
const (
	// costPerStep is the time of Go's regexp per byte and instruction.
	costPerStep = 30 * time.Nanosecond
	// maxInstructions bounds the programs of one rule together. The estimate does
	// not walk more.
	maxInstructions = 20000
	// stepsPerExpression is the cost of the search for the literals of an
	// expression, in steps per byte.
	stepsPerExpression = 2
	// textsPerStep is how many texts can be searched in the time of a step.
	textsPerStep = 3
	// slotsPerStep is how many group positions a thread can copy in that time.
	slotsPerStep = 200
)

// SizeCost returns the time that a program of n instructions takes for a line of
// MaxLine bytes.
func SizeCost(n int) time.Duration { return time.Duration(n) * MaxLine * costPerStep }

// Cost is an upper bound of the time that expressions and searches for texts take
// together for any line of MaxLine bytes. The zero value is no expression.
//
// Go's regexp runs all threads in parallel: for each letter it takes one step for
// each instruction that a thread has reached. After a letter these are the
// successors of the instructions that accept it, up to the next ones that consume
// a letter. So the cost depends not on the size of a program but on how much of
// it one letter keeps alive: little of `leaderelection lost`, all of
// `[\pL]{1,900}z`.
type Cost struct {
	programs []weighted
	size     int     // instructions
	fixed    float64 // steps per byte that do not depend on the letter
}

// weighted is a program and the cost of one of its steps, in steps.
type weighted struct {
	prog   *syntax.Prog
	weight float64
}

// Texts adds the search for n texts.
func (c *Cost) Texts(n int) { c.fixed += float64(n) / textsPerStep }

// Expression adds an expression, which may be nil. Named groups also need their
// positions; for a field that is a second search.
func (c *Cost) Expression(re *literals.Expression, field bool) {
	if re == nil {
		return
	}
	if c.size += Size(re.String()); c.size > maxInstructions {
		return
	}
	prog := program(re.String())
	weight := 1.0
	if len(Groups(re)) > 0 {
		weight += float64(2*len(re.SubexpNames())) / slotsPerStep
		if field {
			weight++
		}
	}
	c.programs = append(c.programs, weighted{prog, weight})
	c.fixed += stepsPerExpression
}

// Time returns the cost, the longest duration if it is not worth computing.
func (c *Cost) Time() time.Duration {
	steps := c.steps()
	if steps >= math.MaxInt32 {
		return math.MaxInt64
	}
	return time.Duration(steps * float64(MaxLine*costPerStep))
}

// steps returns the number of steps per byte for the most expensive letter.
func (c *Cost) steps() float64 {
	if c.size > maxInstructions {
		return math.MaxInt32
	}
	classes, letters := c.classes()
	worst := 0.0
	walk := newWalk(c.programs)
	known := map[string]bool{}
	accepted := make([]byte, len(classes))
	for _, r := range letters {
		for i, class := range classes {
			accepted[i] = 0
			if class.inst.MatchRune(r) {
				accepted[i] = 1
			}
		}
		if !known[string(accepted)] {
			known[string(accepted)] = true
			worst = max(worst, walk.steps(classes, accepted))
		}
	}
	return c.fixed + worst
}

// class is a set of letters and the instructions that accept them.
type class struct {
	inst *syntax.Inst
	at   []location
}

// location identifies an instruction of one of the programs.
type location struct {
	program int
	pc      uint32
}

// classes returns the classes of letters in the programs, and one letter for each
// distinct set of classes: the first letter of each range is enough, because a
// class that accepts a letter also accepts the first letter of the nearest range
// that starts before it.
func (c *Cost) classes() ([]class, []rune) {
	var out []class
	index := map[string]int{}
	letters := map[rune]bool{'x': true}
	var key []byte // identifies the instruction; Arg has its flags
	for n, w := range c.programs {
		for pc := range w.prog.Inst {
			in := &w.prog.Inst[pc]
			switch in.Op {
			case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			default:
				continue
			}
			key = append(key[:0], byte(in.Op), byte(in.Arg))
			for _, r := range in.Rune {
				key = binary.LittleEndian.AppendUint32(key, uint32(r))
			}
			i, ok := index[string(key)]
			if !ok {
				i = len(out)
				index[string(key)] = i
				out = append(out, class{inst: in})
				addLetters(letters, in)
			}
			out[i].at = append(out[i].at, location{n, uint32(pc)})
		}
	}
	return out, slices.Collect(maps.Keys(letters))
}

func addLetters(letters map[rune]bool, in *syntax.Inst) {
	if len(in.Rune) == 1 { // may ignore case
		r := in.Rune[0]
		letters[r] = true
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			letters[f] = true
		}
		return
	}
	for i := 0; i+1 < len(in.Rune); i += 2 {
		letters[in.Rune[i]] = true
	}
}

// walk counts the instructions that are reachable without consuming a letter.
type walk struct {
	programs []weighted
	seen     [][]uint32 // the last round that reached each instruction
	round    uint32
	stack    []uint32
}

func newWalk(programs []weighted) *walk {
	w := &walk{programs: programs}
	for _, p := range programs {
		w.seen = append(w.seen, make([]uint32, len(p.prog.Inst)))
	}
	return w
}

// steps returns the steps after a letter that some classes accept. A search also
// restarts after each letter.
func (w *walk) steps(classes []class, accepted []byte) float64 {
	w.round++
	sum := 0.0
	for n, p := range w.programs {
		sum += p.weight * float64(w.reach(n, uint32(p.prog.Start)))
	}
	for i, c := range classes {
		if accepted[i] == 0 {
			continue
		}
		for _, at := range c.at {
			p := w.programs[at.program]
			sum += p.weight * float64(w.reach(at.program, p.prog.Inst[at.pc].Out))
		}
	}
	return sum
}

func (w *walk) reach(program int, pc uint32) (n int) {
	insts, seen := w.programs[program].prog.Inst, w.seen[program]
	w.stack = append(w.stack[:0], pc)
	for len(w.stack) > 0 {
		pc = w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		if seen[pc] == w.round {
			continue
		}
		seen[pc] = w.round
		n++
		switch in := &insts[pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			w.stack = append(w.stack, in.Arg, in.Out)
		case syntax.InstCapture, syntax.InstEmptyWidth, syntax.InstNop:
			w.stack = append(w.stack, in.Out)
		}
	}
	return n
}
