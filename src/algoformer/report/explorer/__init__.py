"""Pages in which a model runs in the browser, beside textbook methods computed in the page."""

from algoformer.report.explorer.pack import check_program as check_program
from algoformer.report.explorer.pack import known_words as known_words
from algoformer.report.explorer.pack import pack_model as pack_model
from algoformer.report.explorer.pack import pack_program as pack_program
from algoformer.report.explorer.page import Exploration as Exploration
from algoformer.report.explorer.page import Puzzle as Puzzle
from algoformer.report.explorer.page import explorer_page as explorer_page
from algoformer.report.explorer.page import is_small as is_small
from algoformer.report.explorer.text import Text as Text
from algoformer.report.explorer.text import text_page as text_page
from algoformer.report.explorer.words import conclusion as conclusion
from algoformer.report.explorer.words import puzzle_conclusion as puzzle_conclusion
from algoformer.report.explorer.words import theorem_conclusion as theorem_conclusion
from algoformer.report.explorer.words import verdict_of as verdict_of
