// Package strictyaml decodes YAML into structs and reports all problems together, each with
// file, line, column and the fix. It is the only package that imports a YAML library. It does
// not depend on rules or configuration.
package strictyaml
