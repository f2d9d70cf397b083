package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"crowsnest/daemon/component"
	"crowsnest/internal/httpconfig"
	"crowsnest/internal/strictyaml"
)

// CheckFiles opens the secrets and certificates that sources and sinks refer to.
func (c *Config) CheckFiles() strictyaml.Problems {
	var out strictyaml.Problems
	if m := c.Rules.ConfigMaps; m != nil && m.Kubeconfig != "" {
		if err := checkReadable(m.Kubeconfig); err != nil {
			out = append(out, m.Keys.Value("kubeconfig").Problem(strictyaml.Error, "file", "config_maps: kubeconfig: "+err.Error(), "check the path, or remove the key to use the service account of the pod"))
		}
	}
	for _, p := range c.allParts() {
		broken := false
		for _, f := range fileSettings(p) {
			err := checkReadable(f.value.String())
			if err == nil || !strings.HasSuffix(f.name, "_file") {
				continue
			}
			key, rest, nested := strings.Cut(f.name, ".")
			message := err.Error()
			if nested {
				message = rest + ": " + message
			}
			out = append(out, p.Keys.Value(key).Problem(strictyaml.Error, "file", message, "create the file, or mount the secret, and let this user read it"))
			broken = broken || f.http
		}
		h := httpConfig(p)
		if h == nil || broken {
			continue
		}
		if _, err := h.NewClient("crowsnest"); err != nil {
			out = append(out, p.Keys.Value("http_config").Problem(strictyaml.Error, "http-config", err.Error(), ""))
		}
	}
	return out
}

func httpConfig(p component.Part) *httpconfig.Config {
	if v := p.Setting("http_config"); v.IsValid() {
		return v.Addr().Interface().(*httpconfig.Config)
	}
	return nil
}

type fileSetting struct {
	name  string // keys, joined with dots
	value reflect.Value
	http  bool // whether the field is in http_config, which resolves its own paths
}

// fileSettings returns the settings of a component that name files: *_file and kubeconfig.
func fileSettings(p component.Part) []fileSetting {
	var out []fileSetting
	var visit func(v reflect.Value, prefix string)
	visit = func(v reflect.Value, prefix string) {
		for _, f := range yamlFields(v) {
			name, value := prefix+f.name, reflect.Indirect(f.value)
			switch {
			case value.Kind() == reflect.Struct:
				visit(value, name+".")
			case value.Kind() == reflect.String && value.String() != "" && (strings.HasSuffix(name, "_file") || f.name == "kubeconfig"):
				out = append(out, fileSetting{name, value, strings.HasPrefix(name, "http_config.")})
			}
		}
	}
	visit(reflect.ValueOf(p.Settings).Elem(), "")
	return out
}

func checkReadable(path string) error {
	data, err := os.ReadFile(path)
	if err == nil && len(data) == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	return err
}
