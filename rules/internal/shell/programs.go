package shell

import (
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
)

// reader describes which of its arguments a program executes as code.
type reader struct {
	code     string   // short options whose value is code
	codeLong []string // long options whose value is code
	valued   string   // short options whose value is not code
	two      []string // long options that take two values
	skip     int      // number of operands before the code
	operands int      // number of operands that are code, or -1 if all of them are
	input    bool     // whether the program executes its standard input if it has no operand
	scripted bool     // whether the operands after the code become its parameters $0, $1 and so on
}

// longValued lists the long options that take a value, for all programs of this file.
var longValued = []string{
	"user", "group", "chdir", "host", "prompt", "signal", "kill-after", "adjustment", "unset", "target", "max-args", "max-procs", "arg-file",
	"delimiter", "env", "workdir", "property", "unit", "machine", "class", "classdata", "indent", "from-file", "file", "rcfile", "init-file", "assign", "field-separator", "require",
}

var (
	shellProgram = reader{valued: "oO", operands: 1, input: true, scripted: true}
	sqlProgram   = reader{code: "ceq", codeLong: []string{"command", "execute", "query"}, valued: "hpPUudHD", input: true}
	// readers lists the programs that execute an argument or their standard input as code.
	readers = map[string]reader{
		"sh": shellProgram, "bash": shellProgram, "dash": shellProgram, "ash": shellProgram, "zsh": shellProgram, "ksh": shellProgram, "fish": shellProgram,
		"python": {code: "cm", valued: "WX", operands: 1, input: true}, "perl": {code: "eEMmI", operands: 1, input: true},
		"ruby": {code: "erI", operands: 1, input: true}, "node": {code: "epr", codeLong: []string{"eval", "print", "require"}, operands: 1, input: true},
		"php": {code: "rBRE", valued: "d", operands: 1, input: true}, "lua": {code: "el", operands: 1, input: true},
		"pwsh": {code: "C", operands: -1, input: true}, "powershell": {code: "C", operands: -1, input: true},
		"awk": {valued: "Fv", code: "fie", codeLong: []string{"source", "file"}, operands: 1}, "sed": {code: "ef", codeLong: []string{"expression", "file"}, operands: 1},
		"jq": {valued: "L", code: "f", two: []string{"arg", "argjson", "slurpfile", "rawfile"}, operands: 1},
		"yq": {code: "f", two: []string{"arg", "argjson"}, operands: 1},
		"su": {code: "c", codeLong: []string{"command", "session-command"}, valued: "gGsw", input: true}, "runuser": {code: "c", codeLong: []string{"command"}, valued: "gGsu"},
		"script": {code: "c", codeLong: []string{"command"}}, "flock": {code: "c", codeLong: []string{"command"}, valued: "wE"}, "sg": {code: "c"},
		"env":  {code: "S", codeLong: []string{"split-string"}, valued: "uC"},
		"psql": sqlProgram, "mysql": sqlProgram, "mariadb": sqlProgram, "sqlite3": {skip: 1, operands: -1, input: true}, "clickhouse-client": sqlProgram,
		"ssh":  {valued: "BbcDEeFIiJLlmOpQRSWw", code: "o", skip: 1, operands: -1, input: true},
		"pdsh": {valued: "wxgfltu", operands: -1}, "watch": {valued: "n", operands: -1}, "parallel": {valued: "jPSaIN", operands: -1, input: true},
		"eval": {operands: -1}, "source": {operands: 1}, ".": {operands: 1}, "trap": {operands: 1}, "alias": {operands: -1}, "let": {operands: -1},
		"at": {input: true, code: "f"}, "batch": {input: true}, "crontab": {operands: 1, input: true},
	}
	// otherNames maps alternative names of programs to their names in readers.
	otherNames = map[string]string{
		"python2": "python", "python3": "python", "gawk": "awk", "mawk": "awk", "nawk": "awk", "gojq": "jq", "nodejs": "node", "rbash": "bash", "gsed": "sed", "luajit": "lua",
	}
)

// wrapper describes a program that runs another command, and where that command starts.
type wrapper struct {
	valued   string // short options that take a value
	operands int    // number of operands before the command
}

var (
	wrappers = map[string]wrapper{
		"sudo": {valued: "ugpCTDRhrtU"}, "doas": {valued: "uC"}, "env": {valued: "uCS"}, "exec": {valued: "a"}, "command": {}, "builtin": {},
		"time": {valued: "fo"}, "nohup": {}, "setsid": {}, "nice": {valued: "n"}, "ionice": {valued: "cnpPu"}, "chrt": {valued: "TPD", operands: 1},
		"taskset": {operands: 1}, "timeout": {valued: "ks", operands: 1}, "stdbuf": {valued: "ioe"}, "xargs": {valued: "aEILnPsd"},
		"chroot": {operands: 1}, "nsenter": {valued: "tSG"}, "unshare": {valued: "RwSG"}, "flock": {valued: "wE", operands: 1}, "runuser": {valued: "ugGs"},
		"strace": {valued: "aeIoOpPsSuE"}, "systemd-run": {valued: "pEuMHt"}, "busybox": {}, "toybox": {},
		// These programs run a command in a container or in a network namespace.
		"docker exec": {valued: "euw", operands: 1}, "podman exec": {valued: "euwl", operands: 1}, "nerdctl exec": {valued: "euw", operands: 1},
		"crictl exec": {valued: "rR", operands: 1}, "ip netns exec": {operands: 1},
	}
	assignment = lazyre.New(`^[A-Za-z_][A-Za-z0-9_]*(\[[^]]*\])?\+?=`)
	// programVariable matches an assignment that determines which program or code runs.
	programVariable = lazyre.New(`^([A-Z_]*PATH|LD_[A-Z_]*|BASH_ENV|ENV|SHELL|IFS|PS[0-4]|[A-Z_]*(EDITOR|VISUAL|PAGER|BROWSER|COMMAND|ASKPASS|SSH|SHELLOPTS|BASHOPTS)|[A-Z]*(STARTUP|OPT|OPTIONS))\+?=`)
	positional      = lazyre.New(`\$(\{[0-9@*]+\}|[0-9@*])`)
)

func programName(word string) string {
	name := word[strings.LastIndexByte(word, '/')+1:]
	if other := otherNames[name]; other != "" {
		return other
	}
	return name
}

// classifyWords records the purpose of the words of a simple command. It reports whether the command executes its
// standard input.
func (w *Script) classifyWords(args []token) (input bool) {
	for _, word := range args {
		if programVariable.MatchString(word.text) {
			w.markCode(word.node)
		}
	}
	starts, open := commandStarts(args)
	for _, at := range starts {
		w.mark(args[at].node, func(p *Place) { p.command = true })
		r, known := readers[programName(args[at].text)]
		if !known {
			continue
		}
		words, reads := r.codeWords(args[at:])
		for _, k := range words {
			w.markCode(args[at+k].node)
		}
		// xargs turns its input into arguments of the program, which executes them.
		fed := slices.ContainsFunc(args[:at], func(a token) bool { return programName(a.text) == "xargs" })
		input = input || reads || fed && (len(words) > 0 || r.operands != 0)
	}
	return input || open
}

// commandStarts returns the indexes of the program names in a simple command. open means that the standard input
// contains the name of a further program.
func commandStarts(args []token) (starts []int, open bool) {
	fed, replaced := false, false
	for at := 0; at < len(args); {
		word := args[at].text
		if assignment.MatchString(word) {
			at++
			continue
		}
		starts = append(starts, at)
		fed = fed || programName(word) == "xargs"
		replaced = replaced || fed && strings.Contains(word, "{}")
		n := wrappedCommand(args[at:])
		if n == 0 {
			break
		}
		if at += n; at >= len(args) && fed && programName(word) != "xargs" {
			open = true
		}
	}
	return append(starts, embeddedStarts(args)...), open || replaced
}

// wrappedCommand returns the index of the command that the first word runs, or 0 if it runs none.
func wrappedCommand(args []token) int {
	name, first := programName(args[0].text), 1
	if i := slices.IndexFunc(args, func(a token) bool { return a.text == "exec" }); i > 0 {
		if name == "ip" {
			name = "ip netns"
		}
		name, first = name+" exec", i+1
	}
	wr, ok := wrappers[name]
	if !ok {
		return 0
	}
	operands := wr.operands
	for i := first; i < len(args); i++ {
		switch word := args[i].text; {
		case word == "--":
			return i + 1 + operands
		case name == "command" && (word == "-v" || word == "-V"):
			return 0 // with this option, the program only looks up a command
		case isOption(word):
			i += countValues(word, wr.valued)
		case name == "env" && assignment.MatchString(word):
		case operands == 0:
			return i
		default:
			operands--
		}
	}
	return len(args)
}

func isOption(word string) bool { return len(word) > 1 && word[0] == '-' }

// countValues returns the number of words after an option that are its values. valued lists the short options with one
// value.
func countValues(option, valued string) int {
	if long, ok := strings.CutPrefix(option, "--"); ok {
		if slices.Contains(longValued, long) {
			return 1
		}
		return 0
	}
	if k := strings.IndexAny(option[1:], valued); valued != "" && k == len(option)-2 {
		return 1
	}
	return 0
}

// embeddedStarts finds commands that are arguments of another command. Such a command follows the -- of kubectl exec or
// the -exec of find, or is the one word that an interpreter executes.
func embeddedStarts(args []token) []int {
	var out []int
	runs := false
	for i, a := range args[:max(len(args)-1, 0)] {
		next := args[i+1].text
		runs = runs || slices.Contains([]string{"exec", "run", "debug", "attach"}, a.text)
		r, known := readers[programName(a.text)]
		hasCode := isOption(next) && (r.scripted && strings.Contains(next, "c") || strings.ContainsAny(next, r.code) && r.code != "" && r.input)
		switch {
		case a.text == "--" && runs, slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, a.text):
			inside, _ := commandStarts(args[i+1:])
			for _, k := range inside {
				out = append(out, i+1+k)
			}
		case known && hasCode && i > 0:
			out = append(out, i)
		}
	}
	return out
}

// codeWords returns the indexes of the words that the program executes, and reports whether the program executes its
// standard input.
func (r *reader) codeWords(args []token) (out []int, input bool) {
	operands, options, given := 0, true, false
	add := func(i int) {
		given = true
		if i < len(args) {
			out = append(out, i)
		}
	}
	for i := 1; i < len(args); i++ {
		word := args[i].text
		switch {
		case options && word == "--":
			options = false
		case options && isOption(word):
			at, values := r.findOption(word)
			if at >= 0 {
				add(i + at)
			}
			i += values
		default:
			operands++
			n := r.operands
			if given && n == 1 && len(out) > 0 && operands == 1 {
				n = 0 // an option contains the code, so the operand is not code
			}
			if operands > r.skip && (n < 0 || operands <= r.skip+n) {
				add(i)
				options = options && n < 0
			}
		}
	}
	if r.scripted {
		out = append(out, r.scriptArguments(args, out)...)
	}
	stdin := !given || slices.ContainsFunc(args, func(a token) bool { return a.text == "-" || a.text == "-s" || a.text == "/dev/stdin" })
	return out, r.input && stdin
}

// findOption examines a word that may be an option. code is the distance in words from the option to the word with its
// code. It is 0 if the word itself contains the code, and -1 if there is no code. values is the number of following
// words that belong to the option.
func (r *reader) findOption(word string) (code, values int) {
	if long, ok := strings.CutPrefix(word, "--"); ok {
		name, _, glued := strings.Cut(long, "=")
		switch {
		case slices.Contains(r.codeLong, name) && glued, strings.ContainsRune(name, Mark):
			return 0, 0
		case slices.Contains(r.codeLong, name):
			return 1, 1
		case slices.Contains(r.two, name):
			return -1, 2
		}
		return -1, countValues(word, "")
	}
	for k, letter := range word[1:] {
		last := k == len(word)-2
		switch {
		case letter == Mark, strings.ContainsRune(r.code, letter) && !last:
			return 0, 0
		case strings.ContainsRune(r.code, letter):
			return 1, 1
		case strings.ContainsRune(r.valued, letter) && last:
			return -1, 1
		case strings.ContainsRune(r.valued, letter):
			return -1, 0
		}
	}
	return -1, 0
}

// scriptArguments returns the words after sh -c SCRIPT if the script executes one of its arguments.
func (r *reader) scriptArguments(args []token, script []int) []int {
	if len(script) == 0 || !slices.ContainsFunc(args[1:script[0]], func(a token) bool { return isOption(a.text) && strings.Contains(a.text, "c") }) {
		return nil
	}
	inside := Parse(positional.ReplaceAllString(args[script[0]].text, string(Mark)))
	if inside.Problem == "" && !slices.ContainsFunc(inside.Places, func(p Place) bool { message, _ := p.Danger(); return message != "" }) {
		return nil
	}
	var out []int
	for i := script[0] + 1; i < len(args); i++ {
		out = append(out, i)
	}
	return out
}
