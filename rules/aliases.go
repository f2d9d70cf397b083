package rules

import "crowsnest/strictyaml"

// Problem is one error or warning about a file, with its position and the fix.
type Problem = strictyaml.Problem

// Problems are all problems of one load.
type Problems = strictyaml.Problems
