"""TPC-C's load: terminals with keying and think times, through an application server.

``rte``  the remote terminal emulator, which runs on the nodes of ``load``
``was``  the application server between terminals and database, on the nodes of ``app``
"""
