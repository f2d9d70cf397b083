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

// MaxLine is the maximum length in bytes of a line that is matched. Longer lines are truncated.
const MaxLine = 16 << 10

// Constants for estimating the cost.
const (
	// costPerStep is the time that Go's regexp takes for one instruction on one byte.
	costPerStep = 30 * time.Nanosecond
	// maxInstructions is the maximum number of instructions of one rule's programs for which the cost is estimated.
	maxInstructions = 20000
	// stepsPerExpression is the cost of searching for the literals of an expression, in steps per byte.
	stepsPerExpression = 2
	// textsPerStep is the number of texts that are searched for in the time of one step.
	textsPerStep = 3
	// slotsPerStep is the number of positions of capture groups that are copied in the time of one step.
	slotsPerStep = 200
)

// SizeCost returns the time that n instructions take on a line of MaxLine bytes, if each takes a step for each byte.
func SizeCost(n int) time.Duration { return time.Duration(n) * MaxLine * costPerStep }

// Cost is an upper bound of the time that expressions and searches for texts take together on any line of at most
// MaxLine bytes. The zero value contains no expression.
//
// Go's regexp runs all threads in parallel. For each character it takes one step for each instruction that a thread has
// reached. The instructions that accept the character have successors, and the threads go on from these to the next
// instructions that consume a character. So the cost depends on the section of the program that one character keeps
// alive, not on the size of the program. That section is small in `leaderelection lost`, and is the whole program in
// `[\pL]{1,900}z`.
type Cost struct {
	programs []weighted
	size     int     // number of instructions of all programs
	fixed    float64 // steps per byte that do not depend on the character
	most     float64 // steps per byte if a character kept all instructions alive
}

// weighted is a program with the cost of each of its steps, relative to a simple step.
type weighted struct {
	re     *syntax.Regexp
	prog   *syntax.Prog // nil until Time needs it
	weight float64
}

// AddTexts adds the search for n texts.
func (c *Cost) AddTexts(n int) { c.fixed += float64(n) / textsPerStep }

// AddExpression adds an expression. A nil expression adds nothing. Finding the positions of named groups costs more. In
// a field it takes a second search.
func (c *Cost) AddExpression(re *literals.Expression, field bool) {
	if re == nil {
		return
	}
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return // the text of an expression was parsed before, so it is valid
	}
	size := programSize(parsed)
	if c.size += size; c.size > maxInstructions {
		return
	}
	weight := 1.0
	if len(Groups(re)) > 0 {
		weight += float64(2*len(re.SubexpNames())) / slotsPerStep
		if field {
			weight++
		}
	}
	c.programs = append(c.programs, weighted{re: parsed, weight: weight})
	c.fixed += stepsPerExpression
	c.most += float64(size) * weight
}

// Most returns a duration of at least Time. It takes far less time to compute.
func (c *Cost) Most() time.Duration {
	if c.size > maxInstructions {
		return math.MaxInt64
	}
	return stepsTime(c.fixed + c.most)
}

// Time returns the upper bound. It returns the longest possible duration if the expressions are too large for the
// estimate.
func (c *Cost) Time() time.Duration { return stepsTime(c.stepsPerByte()) }

// stepsTime returns the time of a number of steps per byte on a line of MaxLine bytes.
func stepsTime(steps float64) time.Duration {
	if steps >= math.MaxInt32 {
		return math.MaxInt64
	}
	return time.Duration(steps * float64(MaxLine*costPerStep))
}

// stepsPerByte returns the number of steps per byte for the most expensive character.
func (c *Cost) stepsPerByte() float64 {
	if c.size > maxInstructions {
		return math.MaxInt32
	}
	for i := range c.programs {
		if w := &c.programs[i]; w.prog == nil {
			w.prog, _ = syntax.Compile(w.re.Simplify()) // the error is always nil
		}
	}
	classes, letters := c.letterClasses()
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
			worst = max(worst, walk.stepsAfter(classes, accepted))
		}
	}
	return c.fixed + worst
}

// class is a set of characters with the instructions that accept them.
type class struct {
	inst *syntax.Inst
	at   []location
}

// location identifies an instruction of one of the programs.
type location struct {
	program int
	pc      uint32
}

// letterClasses returns the classes in the programs, and one character for each distinct set of classes that accept the
// same character. The first character of each range is enough, because a class that accepts a character also accepts
// the first character of the nearest range that starts before it.
func (c *Cost) letterClasses() ([]class, []rune) {
	var out []class
	index := map[string]int{}
	letters := map[rune]bool{'x': true}
	var key []byte // key identifies an instruction, including its flags, which are in Arg
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
	if len(in.Rune) == 1 { // with one character, the instruction may ignore case
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

// walk counts the instructions that are reachable without consuming a character.
type walk struct {
	programs []weighted
	seen     [][]uint32 // number of the last round in which each instruction was reached
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

// stepsAfter returns the number of steps that follow a character. accepted is the set of classes that contain the
// character. A search also restarts after each character.
func (w *walk) stepsAfter(classes []class, accepted []byte) float64 {
	w.round++
	sum := 0.0
	for n, p := range w.programs {
		sum += p.weight * float64(w.reachable(n, uint32(p.prog.Start)))
	}
	for i, c := range classes {
		if accepted[i] == 0 {
			continue
		}
		for _, at := range c.at {
			p := w.programs[at.program]
			sum += p.weight * float64(w.reachable(at.program, p.prog.Inst[at.pc].Out))
		}
	}
	return sum
}

func (w *walk) reachable(program int, pc uint32) (n int) {
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
