"""How tasks are tested: what a TestCase enqueues is rolled back with it, and a TransactionTestCase works it with the real engine."""

from django.test import TestCase, TransactionTestCase
from windlass.django.testing import clear_tasks, drain_tasks, enqueued_tasks

from .tasks import second_try, welcome


class SignUp(TestCase):
    def test_a_welcome_is_enqueued(self) -> None:
        with enqueued_tasks() as tasks:
            welcome.enqueue("a@example.com")
        self.assertEqual([(one.task, one.args) for one in tasks], [(welcome, ["a@example.com"])])


class Mails(TransactionTestCase):
    def setUp(self) -> None:
        clear_tasks()  # of other tests

    def test_a_welcome_is_sent(self) -> None:
        result = welcome.enqueue("a@example.com")
        self.assertEqual(drain_tasks()["completed"], 1)
        result.refresh()
        self.assertEqual(result.return_value, "Welcome, a@example.com!")

    def test_what_fails_is_tried_again(self) -> None:
        result = second_try.enqueue()
        with self.assertRaisesMessage(AssertionError, "a handler raised ValueError: the first attempt fails"):
            drain_tasks()
        result.refresh()
        self.assertEqual((result.status, result.attempts), ("READY", 1))
