"""Words and their ids."""

from impala_tf.envs import word_ids

# All words of MiniGrid's and BabyAI's missions (minigrid 3.2.0), and those of
# DeepMind Lab's language levels (its game_scripts/levels/contributed/dmlab30
# and, for what objects are called, game_scripts/language/object_generator.lua).
MINIGRID = """
a after an and at avoid ball behind blue box door end fetch find first front get
go goal green grey hallway in key lava left matching must near next object of on
open opening pick purple put reach red right rooms square the then to traverse
up use with yellow you your""".split()
DMLAB = """
all any anything apple2 are ball balloon banana blue bottle cake can car
cassette chair cherries cow cyan every flower fork fridge green guitar
hair_brush hammer hat ice_lolly in is jug key knife ladder magenta most mug
near object objects pencil pick pig pincer plant red room saxophone shoe spoon
suitcase tennis_racket the tomato toothbrush tree tv wine_glass yellow
zebra""".split()


def test_words_of_our_levels_have_ids_of_their_own():
  words = sorted({*MINIGRID, *DMLAB})
  ids = {word: word_ids.word_ids(word) for word in words}
  assert all(len(of_word) == 1 for of_word in ids.values())
  assert len({of_word[0] for of_word in ids.values()}) == len(words)
  for of_word in ids.values():
    assert 1 <= of_word[0] <= word_ids.NUM_WORD_IDS


def test_words_are_in_order_without_punctuation_and_capitals():
  put, the, ball, then, open_, door = (
      word_ids.word_ids(word)[0]
      for word in ('put', 'the', 'ball', 'then', 'open', 'door'))
  assert word_ids.word_ids('Put the ball, then open the  door!') == [
      put, the, ball, then, open_, the, door]
  assert word_ids.word_ids('') == word_ids.word_ids(' ?') == []
  assert len(word_ids.word_ids('2 wine_glasses, red-green, naïve')) == 5


def test_ids_never_change():
  # Of saved agents, too.
  assert word_ids.word_ids('go to the red ball') == [457, 267, 669, 838, 233]
