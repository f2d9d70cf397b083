package cli

import (
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

type logFlags struct {
	level  *oneOf
	format *oneOf
}

func newLogFlags() logFlags {
	return logFlags{level: newOneOf("info", "debug", "warn", "error"), format: newOneOf("auto", "json", "console")}
}

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().Var(f.level, "log.level", "minimum level to log")
	cmd.Flags().Var(f.format, "log.format", "log format; auto: console on a terminal, json otherwise")
}

func (f *logFlags) newLogger(c *cli) zerolog.Logger {
	zerolog.TimeFieldFormat = time.RFC3339Nano
	zerolog.MessageFieldName = "msg"
	zerolog.ErrorFieldName = "err"
	level, err := zerolog.ParseLevel(f.level.value)
	if err != nil {
		level = zerolog.InfoLevel
	}
	w := c.err
	if f.format.value == "console" || f.format.value == "auto" && isTerminal(c.err) {
		w = zerolog.ConsoleWriter{Out: c.err, NoColor: !c.colors(c.err), TimeFormat: time.TimeOnly}
	}
	return zerolog.New(zerolog.SyncWriter(w)).Level(level).With().Timestamp().Logger()
}
