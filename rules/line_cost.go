package rules

import (
	"encoding/binary"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"
	"unicode"
)

// What a line costs at most, besides costPerStep.
const (
	// maxInstructions bounds the programs of one rule together: more are not
	// even looked at.
	maxInstructions = 20000
	// stepsPerExpression is for the texts that are looked for before an
	// expression is tried, in steps per byte.
	stepsPerExpression = 2
	// textsPerStep is how many texts can be looked for in the time of a step.
	textsPerStep = 3
	// slotsPerStep is how many places of groups a thread can copy in that time.
	slotsPerStep = 200
)

// lineCost is the most that matchers may take, all together, for one line of
// maxMatchedLine bytes, whatever it holds.
//
// Go's regexp follows all threads at once: for each letter it takes one step for
// each instruction at which a thread can stand. After a letter those are the ones
// that follow an instruction that takes it, up to the next that take one. So it
// is not the size of a program that counts, but how much of it one letter keeps
// alive: little of `leaderelection lost`, all of `[\pL]{1,900}z`.
func lineCost(ms []Matcher) time.Duration {
	var p profile
	for i := range ms {
		p.add(&ms[i])
	}
	steps := p.steps()
	if steps >= math.MaxInt32 {
		return math.MaxInt64
	}
	return time.Duration(steps * float64(maxMatchedLine*costPerStep))
}

// profile collects the programs of all expressions that one line can meet.
type profile struct {
	programs []weighted
	size     int     // instructions
	fixed    float64 // steps per byte, whatever the letter
}

// weighted is a program and what one of its steps costs, in steps.
type weighted struct {
	prog   *syntax.Prog
	weight float64
}

func (p *profile) add(m *Matcher) {
	p.fixed += float64(len(m.Contains)) / textsPerStep
	p.expression(m.Regex, false)
	for _, f := range m.Fields {
		p.fixed += 1.0 / textsPerStep // to find it
		p.expression(f.Regex, true)
	}
	for i := range m.Any {
		p.add(&m.Any[i])
	}
	if m.Not != nil {
		p.add(m.Not)
	}
}

// expression adds one. With named groups it is asked for their places, too; for
// a field that is a second search.
func (p *profile) expression(re *regexp.Regexp, field bool) {
	if re == nil {
		return
	}
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err == nil {
		parsed = parsed.Simplify()
		var prog *syntax.Prog
		if prog, err = syntax.Compile(parsed); err == nil {
			weight := 1.0
			if named := slices.ContainsFunc(re.SubexpNames(), func(s string) bool { return s != "" }); named {
				weight += float64(2*re.NumSubexp()+2) / slotsPerStep
				if field {
					weight++
				}
			}
			p.programs = append(p.programs, weighted{prog, weight})
			p.size += len(prog.Inst)
		}
	}
	if err != nil {
		p.size = math.MaxInt32 // it compiled before: this cannot be
	}
	p.fixed += stepsPerExpression
}

// steps is the number of steps per byte of the letter that takes the most.
func (p *profile) steps() float64 {
	if p.size > maxInstructions {
		return math.MaxInt32
	}
	classes, letters := p.classes()
	worst := 0.0
	walk := newWalk(p.programs)
	known := map[string]bool{}
	taken := make([]byte, len(classes))
	for _, r := range letters {
		for i, c := range classes {
			taken[i] = 0
			if c.inst.MatchRune(r) {
				taken[i] = 1
			}
		}
		if !known[string(taken)] {
			known[string(taken)] = true
			worst = max(worst, walk.steps(classes, taken))
		}
	}
	return p.fixed + worst
}

// class is a set of letters, and the instructions that take them.
type class struct {
	inst *syntax.Inst
	at   []place
}

// place is an instruction of one of the programs.
type place struct {
	program int
	pc      uint32
}

// classes returns the classes of letters in the programs, and letters of which
// one stands for each that differs: the first of each range, since whatever
// takes a letter takes the first of the range that starts last before it.
func (p *profile) classes() ([]class, []rune) {
	var out []class
	index := map[string]int{}
	letters := map[rune]bool{'x': true}
	var key []byte // what the instruction does; Arg holds flags
	for n, w := range p.programs {
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
			out[i].at = append(out[i].at, place{n, uint32(pc)})
		}
	}
	list := make([]rune, 0, len(letters))
	for r := range letters {
		list = append(list, r)
	}
	return out, list
}

func addLetters(letters map[rune]bool, in *syntax.Inst) {
	if len(in.Rune) == 1 { // perhaps in any case
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

// walk counts instructions that are reached without taking a letter.
type walk struct {
	programs []weighted
	seen     [][]uint32 // the round in which each was reached
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

// steps is what is reached after a letter that some classes take. A search also
// starts anew behind each letter.
func (w *walk) steps(classes []class, taken []byte) float64 {
	w.round++
	sum := 0.0
	for n, p := range w.programs {
		sum += p.weight * float64(w.reach(n, uint32(p.prog.Start)))
	}
	for i, c := range classes {
		if taken[i] == 0 {
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
