import unittest

from bench import arithmetic


class Arithmetic(unittest.TestCase):
    def test_the_median_leaves_out_what_is_missing(self):
        self.assertEqual(arithmetic.median([3, None, 1, 2]), 2)
        self.assertEqual(arithmetic.median([1, 2]), 1.5)
        self.assertIsNone(arithmetic.median([None]))

    def test_an_advantage_is_above_one_when_ours_is_better_whatever_better_means(self):
        self.assertEqual(arithmetic.advantage(300, 100), 3)
        self.assertEqual(arithmetic.advantage(2, 6, more_is_better=False), 3)
        self.assertEqual(arithmetic.advantage(50, 100), 0.5)
        self.assertIsNone(arithmetic.advantage(None, 1))
        self.assertIsNone(arithmetic.advantage(1, 0))

    def test_figures_are_short_and_never_rounded_away(self):
        shown = {812_345: "812k", 54_321: "54.3k", 9_830: "9,830", 3_894_000: "3.89M", 7: "7", 0.62: "0.62", 42.25: "42.2"}
        for value, text in shown.items():
            self.assertEqual(arithmetic.number(value), text)
        self.assertEqual(arithmetic.number(None), "-")

    def test_a_ratio_near_one_shows_on_which_side_it_is(self):
        self.assertEqual([arithmetic.times(ratio) for ratio in (0.97, 1.04, 3.44, 18.2, None)], ["0.97x", "1.04x", "3.4x", "18x", "-"])

    def test_a_bar_in_a_cell_does_not_end_it(self):
        self.assertEqual(arithmetic.table(["a", "b"], [["x|y", 1]]), "| a | b |\n|---|---|\n| x\\|y | 1 |")
