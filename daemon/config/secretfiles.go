package config

import (
	"fmt"
	"os"

	commonconfig "github.com/prometheus/common/config"

	"crowsnest/httpconfig"
	"crowsnest/strictyaml"
)

// CheckFiles opens what the configuration names but rules: secrets and
// certificates.
func (c *Config) CheckFiles() strictyaml.Problems {
	var out strictyaml.Problems
	for _, p := range c.Sinks.Webhook {
		if file := p.Config.URLFile; file != "" {
			if err := readable(file); err != nil {
				out = append(out, p.Keys.Value("url_file").Problem(strictyaml.Error, "file", err.Error(), "create the file, or mount the secret, and let this user read it"))
			}
		}
	}
	if p := c.Sources.Agents; p != nil {
		for key, file := range map[string]string{"web_config_file": p.Config.WebConfigFile, "bearer_token_file": p.Config.BearerTokenFile, "admin_token_file": p.Config.AdminTokenFile} {
			if err := readable(file); file != "" && err != nil {
				out = append(out, p.Keys.Value(key).Problem(strictyaml.Error, "file", err.Error(), "create the file, or mount the secret, and let this user read it"))
			}
		}
	}
	for _, h := range c.httpConfigs() {
		before := len(out)
		for _, f := range secretFiles(h.config.HTTPClientConfig) {
			if err := readable(f.path); err != nil {
				out = append(out, h.at.Problem(strictyaml.Error, "file", fmt.Sprintf("%s: %v", f.key, err), "create the file, or mount the secret, and let this user read it"))
			}
		}
		if len(out) > before {
			continue
		}
		if _, err := h.config.Client("crowsnest"); err != nil {
			out = append(out, h.at.Problem(strictyaml.Error, "http-config", err.Error(), ""))
		}
	}
	return out
}

// httpPart is the http_config of one source or sink.
type httpPart struct {
	config *httpconfig.Config
	at     strictyaml.Pos
}

// httpConfigs returns all of them: their files are checked, and stand beside the
// configuration.
func (c *Config) httpConfigs() []httpPart {
	var out []httpPart
	for i := range c.Sinks.Alertmanager {
		p := &c.Sinks.Alertmanager[i]
		out = append(out, httpPart{&p.Config.HTTP, p.Keys.Value("http_config")})
	}
	for i := range c.Sinks.Loki {
		p := &c.Sinks.Loki[i]
		out = append(out, httpPart{&p.Config.HTTP, p.Keys.Value("http_config")})
	}
	for i := range c.Sinks.Webhook {
		p := &c.Sinks.Webhook[i]
		out = append(out, httpPart{&p.Config.HTTP, p.Keys.Value("http_config")})
	}
	for i := range c.Sources.Loki {
		p := &c.Sources.Loki[i]
		out = append(out, httpPart{&p.Config.HTTP, p.Keys.Value("http_config")})
	}
	if p := c.Sinks.Upstream; p != nil {
		out = append(out, httpPart{&p.Config.HTTP, p.Keys.Value("http_config")})
	}
	return out
}

// secretFile is a file that an HTTP client reads.
type secretFile struct{ key, path string }

func secretFiles(h commonconfig.HTTPClientConfig) []secretFile {
	all := []secretFile{
		{"bearer_token_file", h.BearerTokenFile},
		{"tls_config.ca_file", h.TLSConfig.CAFile},
		{"tls_config.cert_file", h.TLSConfig.CertFile},
		{"tls_config.key_file", h.TLSConfig.KeyFile},
	}
	if b := h.BasicAuth; b != nil {
		all = append(all, secretFile{"basic_auth.username_file", b.UsernameFile}, secretFile{"basic_auth.password_file", b.PasswordFile})
	}
	if a := h.Authorization; a != nil {
		all = append(all, secretFile{"authorization.credentials_file", a.CredentialsFile})
	}
	if o := h.OAuth2; o != nil {
		all = append(all, secretFile{"oauth2.client_secret_file", o.ClientSecretFile},
			secretFile{"oauth2.tls_config.ca_file", o.TLSConfig.CAFile}, secretFile{"oauth2.tls_config.cert_file", o.TLSConfig.CertFile},
			secretFile{"oauth2.tls_config.key_file", o.TLSConfig.KeyFile})
	}
	var out []secretFile
	for _, f := range all {
		if f.path != "" {
			out = append(out, f)
		}
	}
	return out
}

// readable reports whether a file can be read and has content.
func readable(path string) error {
	data, err := os.ReadFile(path)
	if err == nil && len(data) == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	return err
}
