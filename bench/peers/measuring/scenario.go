package measuring

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
)

// Scenario measures; it returns the settings really used and the figures.
type Scenario func(context.Context, Settings) (used, figures map[string]any, err error)

// Run measures the scenario of that name and prints the result as one line of JSON.
func Run(ctx context.Context, command, version string, scenarios map[string]Scenario) error {
	s, err := ReadSettings(command)
	if err != nil {
		return err
	}
	scenario := scenarios[command]
	if scenario == nil {
		return Cannot(fmt.Sprintf("scenario %q is left out, see peer.json", command))
	}
	used, figures, err := scenario(ctx, s)
	if err != nil {
		return err
	}
	result := map[string]any{"version": version, "settings": used, "figures": figures}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// Version is that of a module as it is linked in.
func Version(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return "unknown"
}
