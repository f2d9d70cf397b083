// Package strictyaml decodes YAML into structs and reports every problem at
// once, each with file, line, column and the fix. It is the only package that
// imports a YAML library. It knows nothing of rules or configuration.
package strictyaml
