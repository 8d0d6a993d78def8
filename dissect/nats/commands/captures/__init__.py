"""Commands about captures as files: facts about them, pieces of them, the packets of some sessions."""
