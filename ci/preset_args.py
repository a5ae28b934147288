"""Arguments that configure a preset of CMakePresets.json, one a line, for a CMake that cannot read it."""
import json
import sys

presets = {p["name"]: p for p in json.load(open("CMakePresets.json"))["configurePresets"]}


def resolve(name):
    preset = presets[name]
    whole = {"cacheVariables": {}}
    parents = preset.get("inherits", [])
    for parent in [parents] if isinstance(parents, str) else reversed(parents):
        inherited = resolve(parent)
        whole["cacheVariables"].update(inherited.pop("cacheVariables"))
        whole.update(inherited)
    whole["cacheVariables"].update(preset.get("cacheVariables", {}))
    for key in ("generator", "binaryDir"):
        if key in preset:
            whole[key] = preset[key]
    return whole


found = resolve(sys.argv[1])
print("-B", found["binaryDir"].replace("${sourceDir}", "."), "-G", found["generator"], sep="\n")
for key, value in found["cacheVariables"].items():
    print(f"-D{key}={value}")
