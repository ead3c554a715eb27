"""Any database that has a JDBC driver, through Spark: the driver's class is named by the job, its jar by `jars` in env.

Rows go between the database and Spark's executors. The few statements that plan splits, create tables and publish go
over a connection of the same driver, opened in Spark's JVM from here.
"""
