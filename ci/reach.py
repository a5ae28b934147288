"""Which scenarios run which line in the simulator, by gcov: a mutant of a line can only be noticed by those.

reach = Reach(root, tree, sources): builds the map, or takes it from tree/reach.json if no file of it has changed.
"""
import concurrent.futures
import hashlib
import json
import os
import shutil
import subprocess
import tempfile


def files_below(root, folders):
    """Every file of some folders, in order."""
    for folder in folders:
        for place, names, files in os.walk(os.path.join(root, folder)):
            names.sort()
            for name in sorted(files):
                yield os.path.join(place, name)


def digest(root):
    """Of all that the map depends on."""
    found = hashlib.sha256()
    for path in files_below(root, ("ddpcore", "harness", "reference", "scenarios")):
        with open(path, "rb") as file:
            found.update(os.path.relpath(path, root).encode() + file.read())
    return found.hexdigest()


class Reach:
    """lines[path][line]: numbers of scenarios; functions[path]: [first line, last line, scenarios]."""

    def __init__(self, root, tree, objects):
        """tree: ddprove built with --coverage. objects: {source: its .gcda}."""
        self.root, self.tree, self.objects = root, tree, objects
        self.scenarios = [path for path in files_below(root, ["scenarios"]) if path.endswith(".yaml")]
        kept = os.path.join(tree, "reach.json")
        now = digest(root)
        self.data = None
        if os.path.exists(kept):
            with open(kept, encoding="utf-8") as file:
                self.data = json.load(file)
        if self.data is None or self.data["digest"] != now:
            self.data = {"digest": now, "lines": {}, "functions": {}}
            self.measure()
            with open(kept, "w", encoding="utf-8") as file:
                json.dump(self.data, file)

    def measure(self):
        """Run every scenario on its own."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(self.scenario, range(len(self.scenarios))):
                for path, number, lines, functions in found:
                    of_file = self.data["lines"].setdefault(path, {})
                    for line, count in lines.items():
                        of_file.setdefault(line, []).extend([number] if count > 0 else [])
                    of_file = self.data["functions"].setdefault(path, {})
                    for first, last, count in functions:
                        of_file.setdefault(f"{first} {last}", []).extend([number] if count > 0 else [])

    def scenario(self, number):
        """[(source, scenario, {line: count}, [(first, last, count)])] of one scenario."""
        folder = tempfile.mkdtemp(prefix="reach-")
        try:
            environment = dict(os.environ, GCOV_PREFIX=folder)
            subprocess.run([f"{self.tree}/bin/ddprove", "run", self.scenarios[number], "--driver", "sim", "-j", "1",
                            "--out", f"{folder}/runs"], env=environment, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)
            subprocess.run([f"{self.tree}/bin/ddprove", "check", f"{folder}/runs"], env=environment,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            written = {path: folder + data for path, data in self.objects.items() if os.path.exists(folder + data)}
            for path, data in written.items():
                notes = self.objects[path][:-len("gcda")] + "gcno"
                os.symlink(notes, data[:-len("gcda")] + "gcno")
            done = subprocess.run(["gcov", "--json-format", "--stdout", *written.values()], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, check=True, cwd=folder)
            return list(self.counts(number, done.stdout, written))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def counts(self, number, text, written):
        """What gcov says, a document a line, one for each source."""
        for document in filter(None, text.splitlines()):
            for file in json.loads(document)["files"]:
                path = os.path.relpath(os.path.normpath(os.path.join(self.tree, file["file"])), self.root)
                if path not in written:
                    continue
                lines = {}
                for line in file["lines"]:
                    name = str(line["line_number"])
                    lines[name] = lines.get(name, 0) + line["count"]
                yield (path, number, lines, [(entry["start_line"], entry["end_line"], entry["execution_count"])
                                             for entry in file["functions"]])

    def of_line(self, path, number):
        """The scenarios that may run a line: those that run its function if gcov does not count the line itself,
        those that run anything of the file if it is in no function."""
        lines = self.data["lines"].get(path, {})
        if str(number) in lines:
            found = set(lines[str(number)])
        else:
            functions = [(text.split(), runs) for text, runs in self.data["functions"].get(path, {}).items()]
            inside = [runs for (first, last), runs in functions if int(first) <= number <= int(last)]
            found = set().union(*inside) if inside else set().union(*lines.values())
        return [self.scenarios[one] for one in sorted(found)]
