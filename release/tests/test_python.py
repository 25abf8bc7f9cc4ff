"""pip install of the wheel, and the README's first screen in Python."""

import shutil

from release.tests.newcomer import PYTHON, ROOT, Newcomer, first_screen, package


class Python(Newcomer):
    def install(self) -> None:
        self.output(PYTHON, "-m", "venv", "venv")
        self.output("venv/bin/python", "-m", "pip", "install", "--no-index", package("*.whl"))

    def setUp(self) -> None:
        super().setUp()
        self.python = self.installed / "venv/bin/python"
        (self.packages,) = self.installed.glob("venv/lib/python*/site-packages")

    def test_the_first_job_runs(self) -> None:
        (self.folder / "hello.py").write_text(first_screen("python"))
        self.works_its_first_job(self.python, "-u", "hello.py")

    def test_the_command_is_there(self) -> None:
        windlass = self.installed / "venv/bin/windlass"
        self.output(windlass, "enqueue", "mail.send", '{"to": "you@example.com"}')
        self.assertIn("mail.send", self.output(windlass, "jobs", "list"))
        self.assertIn("windlass worker MODULE:APP", self.output(windlass, "--help"))

    def test_types_and_licenses_are_packed(self) -> None:
        installed = {path.name: path for path in self.packages.glob("windlass*/**/*")}
        self.assertIn("py.typed", installed)
        self.assertIn("_native.pyi", installed)
        for license in ("LICENSE-MIT", "LICENSE-APACHE"):
            self.assertEqual(installed[license].read_text(), (ROOT / license).read_text())
        described = installed["METADATA"].read_text()
        for said in ("License-Expression: MIT OR Apache-2.0", "Requires-Python: >=3.10", "# windlass"):
            self.assertIn(said, described)

    def test_without_its_native_module_the_package_says_what_to_do(self) -> None:
        shutil.copytree(self.packages / "windlass", self.folder / "windlass")  # wins over what is installed
        native = self.folder / "windlass/_native.abi3.so"
        machine_code = bytearray(native.read_bytes())
        native.unlink()
        said = self.complaint(self.python, "-c", "import windlass")
        self.assertRegex(said, "ImportError: the native part of windlass .* is missing.*pip install --force-reinstall windlass")
        machine_code[18:20] = b"\xff\x00"  # e_machine of ELF: no processor
        native.write_bytes(machine_code)
        said = self.complaint(self.python, "-c", "import windlass")
        self.assertRegex(said, "ImportError: the native part of windlass .* does not load.*pip install --force-reinstall windlass")
