"""npm install of the tarballs, and the README's first screen in TypeScript."""

import json
import platform
import shutil

from release.tests.newcomer import ROOT, Newcomer, first_screen, manifest, package

QUEUES = "import('windlass').then(({ Windlass }) => new Windlass('sqlite:a.db').queues())"


class Node(Newcomer):
    def install(self) -> None:
        self.output("npm", "install", "--offline", "--no-audit", "--no-fund", package("windlass-node-*.tgz"), package("windlass-[0-9]*.tgz"))

    def setUp(self) -> None:
        super().setUp()
        shutil.copytree(self.installed, self.folder, dirs_exist_ok=True)
        (self.native,) = self.folder.glob("node_modules/@windlass/*/windlass.node")

    def test_the_first_job_runs(self) -> None:
        (self.folder / "hello.mts").write_text(first_screen("ts"))
        # Node 22.18 and later runs the file itself; that its types fit is asked of the compiler anyway.
        sdk = ROOT / "sdks/node/node_modules"
        types = ["--types", "node", "--typeRoots", sdk / "@types"]
        options = ["--strict", "--module", "nodenext", "--target", "es2023", "--lib", "es2023,esnext.disposable", *types]
        self.output("node", sdk / "typescript/bin/tsc", *options, "hello.mts")
        self.works_its_first_job("node", "hello.mjs")

    def test_what_is_not_needed_is_not_packed(self) -> None:
        main = self.folder / "node_modules/windlass"
        self.assertEqual({path.name for path in main.iterdir()}, {"LICENSE-APACHE", "LICENSE-MIT", "README.md", "dist", "package.json"})
        self.assertEqual(
            {path.name for path in self.native.parent.iterdir()}, {"LICENSE-APACHE", "LICENSE-MIT", "README.md", "package.json", "windlass.node"}
        )
        self.assertTrue({"scripts", "devDependencies", "dependencies"}.isdisjoint(manifest(package("windlass-[0-9]*.tgz"))))

    def test_each_platform_gets_its_own_part_of_the_same_version(self) -> None:
        main, native = manifest(package("windlass-[0-9]*.tgz")), manifest(package("windlass-node-*.tgz"))
        platforms = json.loads((ROOT / "release/platforms.json").read_text()).values()
        self.assertEqual(main["optionalDependencies"], {f"@windlass/node-{one['npm']}": main["version"] for one in platforms})
        self.assertIn(native["name"], main["optionalDependencies"])
        self.assertEqual(native["os"], [platform.system().lower()])

    def test_without_its_platform_package_it_says_what_to_do(self) -> None:
        machine_code = bytearray(self.native.read_bytes())
        self.native.unlink()
        self.assertRegex(self.complaint("node", "-e", QUEUES), "node-.* is missing or does not load.*delete node_modules and the lock file")
        machine_code[18:20] = b"\xff\x00"  # e_machine of ELF: no processor
        self.native.write_bytes(machine_code)
        self.assertRegex(self.complaint("node", "-e", QUEUES), "node-.* is missing or does not load.*delete node_modules and the lock file")

    def test_a_part_of_another_platform_is_not_installed(self) -> None:
        other = self.folder / "other"
        other.mkdir()
        (other / "package.json").write_text(json.dumps({"name": "@windlass/node-other", "version": "0.0.0", "os": ["aix"], "cpu": ["ppc64"]}))
        self.assertIn("EBADPLATFORM", self.complaint("npm", "install", "--offline", "--install-links", "./other"))
