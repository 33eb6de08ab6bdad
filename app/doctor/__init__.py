"""The doctor: what is wrong with the node, and what to do about it.

It changes nothing on the node: it makes no directory, writes no file, takes no part in anything.  It works whether
the daemon runs or not, and says what it cannot see with the rights that it has.  Adapters gather facts, each part of
them within :data:`PATIENCE`, so that whatever hangs is a finding too; :mod:`domain.diagnosis` judges.
"""

from app.doctor.examination import examine
from app.doctor.gathering import PATIENCE

__all__ = ["PATIENCE", "examine"]
