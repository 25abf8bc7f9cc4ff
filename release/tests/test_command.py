"""The command by itself: unpacked, it enqueues and works a job."""

import tarfile
import unittest

from release.tests.newcomer import OPTIMIZED, Newcomer, package


class Command(Newcomer):
    def setUp(self) -> None:
        super().setUp()
        with tarfile.open(package("windlass-*-*-*.tar.gz")) as packed:
            packed.extractall(self.folder, filter="data")
        (self.windlass,) = self.folder.glob("windlass-*/windlass")

    def test_it_enqueues_and_works_a_job(self) -> None:
        self.output(self.windlass, "enqueue", "mail.send", '{"to": "you@example.com"}')
        self.output(self.windlass, "work", "--exec", "read -r mail; echo \"$mail\" >mail", "--until-empty")
        self.assertEqual((self.folder / "mail").read_text(), '{"to": "you@example.com"}\n')

    @unittest.skipUnless(OPTIMIZED, "only an optimized command is linked statically")
    def test_it_needs_no_library_of_the_machine(self) -> None:
        done = self.run_in_folder("ldd", self.windlass)
        self.assertRegex(done.stdout + done.stderr, "statically linked|not a dynamic executable")

    def test_its_licenses_are_beside_it(self) -> None:
        self.assertEqual({path.name for path in self.windlass.parent.iterdir()}, {"windlass", "LICENSE-MIT", "LICENSE-APACHE"})
