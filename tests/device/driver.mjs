// MicroPython in node: the files of the folder that is named first, and driver.py, line by line.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
const { loadMicroPython } = await import(process.argv[3]);
const python = await loadMicroPython({ heapsize: 1 << 20 });
for (const name of ["config.py", "psofed.py", "driver.py"])
    python.FS.writeFile(name, readFileSync(`${process.argv[2]}/${name}`));
const driver = python.pyimport("driver");
for await (const line of createInterface({ input: process.stdin }))
    console.log(driver.say(line));
