package rules

import "crowsnest/strictyaml"

// Problem is one thing wrong with a file, with its place and the fix.
type Problem = strictyaml.Problem

// Problems are all problems of one load.
type Problems = strictyaml.Problems
