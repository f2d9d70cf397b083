// Package strictyaml decodes YAML into structs and reports all problems together, each with file, line, column and the
// fix. It is the only package that imports a YAML library. It does not depend on rules or configuration.
//
// A problem is an error or a warning about a file. A node is a value in the YAML file: a scalar, a list or a mapping. A
// text is a scalar that is a string.
package strictyaml
