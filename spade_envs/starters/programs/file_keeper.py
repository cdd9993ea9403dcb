"""Tool use on a file store: archive by size, restore a version, and empty the rest, under locks and quotas."""

import json
import random

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}


def tool(description, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"description": description, "parameters": schema}


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


class FileKeeperEnv(ToolUseBaseEnv):  # noqa: F821
    def __init__(self, max_turns=24, **kwargs):
        super().__init__(max_turns=max_turns, **kwargs)

    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn_count, self._current_msg, self._call_history = 0, 0, []
        stems = rng.sample(["amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heath", "inlet"], 8)
        bound = rng.randrange(40, 71, 5)
        large = [f"{stem}.log" for stem in stems[:2]]
        files = {f"inbox/{name}": {"size": bound + rng.randint(1, 60), "locked": False} for name in large}
        files |= {f"inbox/{stem}.log": {"size": bound - rng.randint(1, 30), "locked": False} for stem in stems[2:4]}
        files[f"inbox/{stems[4]}.txt"] = {"size": bound + rng.randint(1, 60), "locked": False}
        report = f"reports/{stems[5]}.csv"
        files[report] = {"size": rng.randint(3, 9), "locked": False}
        files[f"reports/{stems[6]}.csv"] = {"size": rng.randint(30, 99), "locked": False}
        files[f"inbox/{large[1]}"]["locked"] = True
        good, count = rng.randint(2, 4), 5
        versions = [{"version": n, "rows": rng.randint(100, 900), "complete": False} for n in range(1, count + 1)]
        versions[good - 1]["complete"] = True
        if good > 2:
            versions[0]["complete"] = True
        restored = rng.randint(60, 99)
        self._state = {"files": files, "folders": ["inbox", "reports"], "versions": versions, "current": count}
        self._report, self._restored, self._good = report, restored, good
        self._large = large
        kept = json.dumps(
            {path: data["size"] for path, data in sorted(files.items()) if "inbox" not in path and path != report}
        )
        small = sorted(path for path in files if path.startswith("inbox/") and path.split("/")[1] not in large)

        def archived(state):
            paths = sorted(path for path in state["files"] if path.startswith("archive/"))
            inbox = sorted(path for path in state["files"] if path.startswith("inbox/"))
            return paths == sorted(f"archive/{name}" for name in large) and inbox == small

        def others(state):
            sizes = {
                p: d["size"] for p, d in sorted(state["files"].items()) if p.startswith("reports/") and p != report
            }
            return json.dumps(sizes) == kept

        self._user_messages = [
            f"Make a folder named archive and move every .log file of more than {bound} KB from inbox into it.",
            f"The file {report} was damaged. Restore its latest complete version from before the damage.",
            f"Lock {report}, so that nobody spoils it again.",
        ]
        self._message_criteria = [
            lambda s: archived(s) and others(s),
            lambda s: archived(s) and others(s) and report in s["files"] and s["current"] == good,
            lambda s: archived(s) and others(s) and s["current"] == good and s["files"][report]["locked"],
        ]
        total = sum(files[f"inbox/{name}"]["size"] for name in large)
        self._expected_answer = f"{total} {restored}"
        self._tools = {
            "list_folder": tool("List the files of a folder with their sizes in KB.", folder=TEXT),
            "make_folder": tool("Make a folder.", folder=TEXT),
            "move_file": tool("Move a file into a folder.", path=TEXT, folder=TEXT),
            "unlock_file": tool("Unlock a file, so that it can be changed or moved.", path=TEXT),
            "lock_file": tool("Lock a file.", path=TEXT),
            "list_versions": tool("List the versions of a file; the highest is the newest.", path=TEXT),
            "check_version": tool("Check whether a version is complete.", path=TEXT, version=WHOLE),
            "restore_version": tool("Make an older version the current one.", path=TEXT, version=WHOLE),
            "compress_folder": tool("Replace the files of a folder by one compressed file.", folder=TEXT),
            "share_link": tool("Make a link to a file for outsiders.", path=TEXT),
            "disk_usage": tool("Say how much of the disk is used."),
        }
        return (
            "You keep a file store with the tools. Requests come one at a time. When all are done, answer with the\n"
            f"total size in KB of the files in archive and the size in KB of {report}, separated by one space.\n"
            f"Owner: {self._user_messages[0]}"
        ), {}

    def _say(self, text):
        return text + self._advance_if_done()

    def tool_list_folder(self, folder):
        folder = folder.strip("/")
        if folder not in self._state["folders"]:
            return self._say(f"There is no folder {folder}. Folders: {', '.join(self._state['folders'])}.")
        rows = [
            f"{path}: {data['size']} KB{', locked' if data['locked'] else ''}"
            for path, data in sorted(self._state["files"].items())
            if path.startswith(folder + "/")
        ]
        return self._say("\n".join(rows) or "The folder is empty.")

    def tool_make_folder(self, folder):
        folder = folder.strip("/")
        if not folder.isalpha() or folder in self._state["folders"]:
            return self._say("A new folder needs a new name of letters only.")
        self._state["folders"].append(folder)
        return self._say(f"The folder {folder} is made.")

    def tool_move_file(self, path, folder):
        files, folder = self._state["files"], folder.strip("/")
        if path not in files or folder not in self._state["folders"]:
            return self._say("Unknown file or folder. A path reads folder/name.")
        if files[path]["locked"]:
            return self._say(f"Refused: {path} is locked.")
        target = f"{folder}/{path.split('/')[1]}"
        files[target] = files.pop(path)
        return self._say(f"{path} is now {target}.")

    def tool_unlock_file(self, path):
        return self._lock(path, False)

    def tool_lock_file(self, path):
        return self._lock(path, True)

    def _lock(self, path, locked):
        if path not in self._state["files"]:
            return self._say(f"There is no file {path}.")
        self._state["files"][path]["locked"] = locked
        return self._say(f"{path} is {'locked' if locked else 'unlocked'}.")

    def tool_list_versions(self, path):
        if path != self._report:
            return self._say(f"{path} has no older versions.")
        newest = len(self._state["versions"])
        rows = ", ".join(f"{item['version']} ({item['rows']} rows)" for item in self._state["versions"])
        return self._say(f"{rows}. Version {newest} is the damaged one. Current: {self._state['current']}.")

    def tool_check_version(self, path, version):
        if path != self._report or not 1 <= version <= len(self._state["versions"]):
            return self._say("There is no such version.")
        complete = self._state["versions"][version - 1]["complete"]
        return self._say(f"Version {version} is {'complete' if complete else 'not complete'}.")

    def tool_restore_version(self, path, version):
        if path != self._report or not 1 <= version <= len(self._state["versions"]):
            return self._say("There is no such version.")
        if path not in self._state["files"] or self._state["files"][path]["locked"]:
            return self._say("Refused: the file is not in its place, or is locked.")
        self._state["current"] = version
        self._state["files"][path]["size"] = self._restored if version == self._good else 10 + version
        return self._say(f"Version {version} is the current one.")

    def tool_compress_folder(self, folder):
        return self._say("Refused: compression is switched off on this store.")

    def tool_share_link(self, path):
        return self._say("Refused: the owner has not allowed links.")

    def tool_disk_usage(self):
        return self._say(f"{sum(data['size'] for data in self._state['files'].values())} KB are used.")

    def solution(self):
        steps = [
            call("make_folder", folder="archive"),
            call("move_file", path=f"inbox/{self._large[0]}", folder="archive"),
            call("unlock_file", path=f"inbox/{self._large[1]}"),
            call("move_file", path=f"inbox/{self._large[1]}", folder="archive"),
            call("restore_version", path=self._report, version=self._good),
            call("lock_file", path=self._report),
            f"<answer>{self._expected_answer}</answer>",
        ]
        return "\n".join(steps)
